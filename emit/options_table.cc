// SPDX-License-Identifier: Apache-2.0
#include "emit/options_table.h"

#include <fmt/format.h>

#include "stream/error.h"
#include "stream/tflite/dtype.h"

namespace lowtide::emit {
namespace {

using namespace core;  // the option structs have the names of the schema's tables
using flatbuffers::FlatBufferBuilder;
using tflite::BuiltinOptions;
using tflite::BuiltinOptions2;

#define LOWTIDE_KIND(schema_name, enumerator, code) \
  static_assert(code == static_cast<int>(tflite::BuiltinOperator::schema_name));
#include "layout/core/kinds.inc"
#undef LOWTIDE_KIND
static_assert(static_cast<int>(Padding::kSame) == static_cast<int>(tflite::Padding::SAME));
static_assert(static_cast<int>(Activation::kRelu6) == static_cast<int>(tflite::ActivationFunctionType::RELU6));

tflite::Padding schema(Padding padding) { return static_cast<tflite::Padding>(padding); }
tflite::ActivationFunctionType schema(Activation activation) {
  return static_cast<tflite::ActivationFunctionType>(activation);
}
tflite::TensorType schema(DType dtype) {
  auto type = stream::tensor_type(dtype);
  if (!type) throw stream::Unsupported(fmt::format("TFLite has no type {}", stream::dtype_name(dtype)));
  return *type;
}

template <typename T>
const T& get(const Op& op) {
  if (const T* options = std::get_if<T>(&op.options)) return *options;
  throw stream::Error(stream::Code::kInternal, fmt::format("{} does not carry its options", kind_name(op.kind)));
}

// 16-bit quantized sums allow any scale only when the file says that scales need not be powers of two.
bool pot_scale_int16(const Graph& graph, const Op& op) {
  const Value& out = graph.at(op.outputs[0]);
  return !(out.dtype == DType::kInt16 && out.quantization);
}

template <typename T>
OptionsTable one(BuiltinOptions type, flatbuffers::Offset<T> table) {
  OptionsTable out;
  out.type = type;
  out.table = table.Union();
  return out;
}

OptionsTable convolution(FlatBufferBuilder& fbb, const Op& op) {
  switch (op.kind) {
    case Kind::kConv2d: {
      const auto& o = get<Conv2dOptions>(op);
      return one(BuiltinOptions::Conv2DOptions,
                 tflite::CreateConv2DOptions(fbb, schema(o.padding), o.stride_w, o.stride_h, schema(o.activation),
                                             o.dilation_w, o.dilation_h));
    }
    case Kind::kDepthwiseConv2d: {
      const auto& o = get<Conv2dOptions>(op);
      return one(
          BuiltinOptions::DepthwiseConv2DOptions,
          tflite::CreateDepthwiseConv2DOptions(fbb, schema(o.padding), o.stride_w, o.stride_h, o.depth_multiplier,
                                               schema(o.activation), o.dilation_w, o.dilation_h));
    }
    case Kind::kTransposeConv: {
      const auto& o = get<TransposeConvOptions>(op);
      return one(
          BuiltinOptions::TransposeConvOptions,
          tflite::CreateTransposeConvOptions(fbb, schema(o.padding), o.stride_w, o.stride_h, schema(o.activation)));
    }
    default: {  // CONV_3D, CONV_3D_TRANSPOSE
      const auto& o = get<Conv3dOptions>(op);
      return one(BuiltinOptions::Conv3DOptions,
                 tflite::CreateConv3DOptions(fbb, schema(o.padding), o.stride_d, o.stride_w, o.stride_h,
                                             schema(o.activation), o.dilation_d, o.dilation_w, o.dilation_h));
    }
  }
}

OptionsTable recurrent(FlatBufferBuilder& fbb, const Op& op) {
  const auto& o = get<SequenceOptions>(op);
  auto activation = o.tanh_activation ? tflite::ActivationFunctionType::TANH : schema(o.activation);
  switch (op.kind) {
    case Kind::kUnidirectionalSequenceRnn:
      return one(BuiltinOptions::SequenceRNNOptions,
                 tflite::CreateSequenceRNNOptions(fbb, o.time_major, activation, o.asymmetric_quantize_inputs));
    case Kind::kBidirectionalSequenceRnn:
      return one(BuiltinOptions::BidirectionalSequenceRNNOptions,
                 tflite::CreateBidirectionalSequenceRNNOptions(fbb, o.time_major, activation, o.merge_outputs,
                                                               o.asymmetric_quantize_inputs));
    case Kind::kUnidirectionalSequenceLstm:
      return one(
          BuiltinOptions::UnidirectionalSequenceLSTMOptions,
          tflite::CreateUnidirectionalSequenceLSTMOptions(fbb, activation, o.cell_clip, o.projection_clip, o.time_major,
                                                          o.asymmetric_quantize_inputs, o.diagonal_recurrent));
    default:
      return one(
          BuiltinOptions::BidirectionalSequenceLSTMOptions,
          tflite::CreateBidirectionalSequenceLSTMOptions(fbb, activation, o.cell_clip, o.projection_clip,
                                                         o.merge_outputs, o.time_major, o.asymmetric_quantize_inputs));
  }
}

OptionsTable stablehlo_scatter(FlatBufferBuilder& fbb, const StablehloScatterOptions& o) {
  OptionsTable out;
  out.type2 = BuiltinOptions2::StablehloScatterOptions;
  out.table = tflite::CreateStablehloScatterOptionsDirect(fbb, false, &o.update_window_dims, &o.inserted_window_dims,
                                                          &o.scatter_dims, o.index_vector_dim, o.unique, o.computation)
                  .Union();
  return out;
}

OptionsTable custom(FlatBufferBuilder& fbb, const CustomOptions& o) {
  OptionsTable out;
  out.custom = fbb.CreateVector(reinterpret_cast<const uint8_t*>(o.bytes.data()), o.bytes.size());
  return out;
}

}  // namespace

OptionsTable options_table(FlatBufferBuilder& fbb, const Graph& graph, const Op& op) {
  switch (op.kind) {
    case Kind::kConv2d:
    case Kind::kDepthwiseConv2d:
    case Kind::kTransposeConv:
    case Kind::kConv3d:
    case Kind::kConv3dTranspose:
      return convolution(fbb, op);
    case Kind::kUnidirectionalSequenceRnn:
    case Kind::kBidirectionalSequenceRnn:
    case Kind::kUnidirectionalSequenceLstm:
    case Kind::kBidirectionalSequenceLstm:
      return recurrent(fbb, op);
    case Kind::kAdd:
      return one(BuiltinOptions::AddOptions,
                 tflite::CreateAddOptions(fbb, schema(get<BinaryOptions>(op).activation), pot_scale_int16(graph, op)));
    case Kind::kSub:
      return one(BuiltinOptions::SubOptions,
                 tflite::CreateSubOptions(fbb, schema(get<BinaryOptions>(op).activation), pot_scale_int16(graph, op)));
    case Kind::kMul:
      return one(BuiltinOptions::MulOptions, tflite::CreateMulOptions(fbb, schema(get<BinaryOptions>(op).activation)));
    case Kind::kDiv:
      return one(BuiltinOptions::DivOptions, tflite::CreateDivOptions(fbb, schema(get<BinaryOptions>(op).activation)));
    case Kind::kAveragePool2d:
    case Kind::kMaxPool2d:
    case Kind::kL2Pool2d: {
      const auto& o = get<PoolOptions>(op);
      return one(BuiltinOptions::Pool2DOptions,
                 tflite::CreatePool2DOptions(fbb, schema(o.padding), o.stride_w, o.stride_h, o.filter_w, o.filter_h,
                                             schema(o.activation)));
    }
    case Kind::kFullyConnected: {
      const auto& o = get<FullyConnectedOptions>(op);
      return one(BuiltinOptions::FullyConnectedOptions,
                 tflite::CreateFullyConnectedOptions(fbb, schema(o.activation),
                                                     tflite::FullyConnectedOptionsWeightsFormat::DEFAULT,
                                                     o.keep_num_dims, o.asymmetric_quantize_inputs));
    }
    case Kind::kBatchMatmul: {
      const auto& o = get<BatchMatmulOptions>(op);
      return one(BuiltinOptions::BatchMatMulOptions,
                 tflite::CreateBatchMatMulOptions(fbb, o.adj_x, o.adj_y, o.asymmetric_quantize_inputs));
    }
    case Kind::kSoftmax:
      return one(BuiltinOptions::SoftmaxOptions, tflite::CreateSoftmaxOptions(fbb, get<SoftmaxOptions>(op).beta));
    case Kind::kConcatenation: {
      const auto& o = get<ConcatOptions>(op);
      return one(BuiltinOptions::ConcatenationOptions,
                 tflite::CreateConcatenationOptions(fbb, o.axis, schema(o.activation)));
    }
    case Kind::kMean:
    case Kind::kSum:
    case Kind::kReduceProd:
    case Kind::kReduceMax:
    case Kind::kReduceMin:
    case Kind::kReduceAny:
    case Kind::kReduceAll:
      return one(BuiltinOptions::ReducerOptions, tflite::CreateReducerOptions(fbb, get<ReduceOptions>(op).keep_dims));
    case Kind::kGather: {
      const auto& o = get<GatherOptions>(op);
      return one(BuiltinOptions::GatherOptions, tflite::CreateGatherOptions(fbb, o.axis, o.batch_dims));
    }
    case Kind::kArgMax:
      return one(BuiltinOptions::ArgMaxOptions, tflite::CreateArgMaxOptions(fbb, schema(get<IndexOptions>(op).dtype)));
    case Kind::kArgMin:
      return one(BuiltinOptions::ArgMinOptions, tflite::CreateArgMinOptions(fbb, schema(get<IndexOptions>(op).dtype)));
    case Kind::kShape:
      return one(BuiltinOptions::ShapeOptions, tflite::CreateShapeOptions(fbb, schema(get<IndexOptions>(op).dtype)));
    case Kind::kUnique:
      return one(BuiltinOptions::UniqueOptions, tflite::CreateUniqueOptions(fbb, schema(get<IndexOptions>(op).dtype)));
    case Kind::kResizeBilinear: {
      const auto& o = get<ResizeOptions>(op);
      return one(BuiltinOptions::ResizeBilinearOptions,
                 tflite::CreateResizeBilinearOptions(fbb, o.align_corners, o.half_pixel_centers));
    }
    case Kind::kResizeNearestNeighbor: {
      const auto& o = get<ResizeOptions>(op);
      return one(BuiltinOptions::ResizeNearestNeighborOptions,
                 tflite::CreateResizeNearestNeighborOptions(fbb, o.align_corners, o.half_pixel_centers));
    }
    case Kind::kStridedSlice: {
      const auto& o = get<StridedSliceOptions>(op);
      return one(BuiltinOptions::StridedSliceOptions,
                 tflite::CreateStridedSliceOptions(fbb, o.begin_mask, o.end_mask, o.ellipsis_mask, o.new_axis_mask,
                                                   o.shrink_axis_mask, o.offset));
    }
    case Kind::kSqueeze:
      return one(BuiltinOptions::SqueezeOptions,
                 tflite::CreateSqueezeOptionsDirect(fbb, &get<SqueezeOptions>(op).dims));
    case Kind::kSplit:
      return one(BuiltinOptions::SplitOptions, tflite::CreateSplitOptions(fbb, get<SplitOptions>(op).num));
    case Kind::kSplitV:
      return one(BuiltinOptions::SplitVOptions, tflite::CreateSplitVOptions(fbb, get<SplitOptions>(op).num));
    case Kind::kPack:
      return one(BuiltinOptions::PackOptions,
                 tflite::CreatePackOptions(fbb, static_cast<int>(op.inputs.size()), get<PackOptions>(op).axis));
    case Kind::kUnpack:
      return one(BuiltinOptions::UnpackOptions,
                 tflite::CreateUnpackOptions(fbb, static_cast<int>(op.outputs.size()), get<PackOptions>(op).axis));
    case Kind::kLeakyRelu:
      return one(BuiltinOptions::LeakyReluOptions,
                 tflite::CreateLeakyReluOptions(fbb, get<LeakyReluOptions>(op).alpha));
    case Kind::kGelu:
      return one(BuiltinOptions::GeluOptions, tflite::CreateGeluOptions(fbb, get<GeluOptions>(op).approximate));
    case Kind::kCumsum: {
      const auto& o = get<CumsumOptions>(op);
      return one(BuiltinOptions::CumsumOptions, tflite::CreateCumsumOptions(fbb, o.exclusive, o.reverse));
    }
    case Kind::kSpaceToDepth:
      return one(BuiltinOptions::SpaceToDepthOptions,
                 tflite::CreateSpaceToDepthOptions(fbb, get<BlockOptions>(op).block_size));
    case Kind::kDepthToSpace:
      return one(BuiltinOptions::DepthToSpaceOptions,
                 tflite::CreateDepthToSpaceOptions(fbb, get<BlockOptions>(op).block_size));
    case Kind::kMirrorPad:
      return one(
          BuiltinOptions::MirrorPadOptions,
          tflite::CreateMirrorPadOptions(fbb, get<MirrorPadOptions>(op).symmetric ? tflite::MirrorPadMode::SYMMETRIC
                                                                                  : tflite::MirrorPadMode::REFLECT));
    case Kind::kOneHot:
      return one(BuiltinOptions::OneHotOptions, tflite::CreateOneHotOptions(fbb, get<OneHotOptions>(op).axis));
    case Kind::kLocalResponseNormalization: {
      const auto& o = get<LrnOptions>(op);
      return one(BuiltinOptions::LocalResponseNormalizationOptions,
                 tflite::CreateLocalResponseNormalizationOptions(fbb, o.radius, o.bias, o.alpha, o.beta));
    }
    case Kind::kReverseSequence: {
      const auto& o = get<ReverseSequenceOptions>(op);
      return one(BuiltinOptions::ReverseSequenceOptions,
                 tflite::CreateReverseSequenceOptions(fbb, o.sequence_axis, o.batch_axis));
    }
    case Kind::kIf: {
      const auto& o = get<SubgraphOptions>(op);
      return one(BuiltinOptions::IfOptions, tflite::CreateIfOptions(fbb, o.first, o.second));
    }
    case Kind::kWhile: {
      const auto& o = get<SubgraphOptions>(op);
      return one(BuiltinOptions::WhileOptions, tflite::CreateWhileOptions(fbb, o.first, o.second));
    }
    case Kind::kCast:
      return one(BuiltinOptions::CastOptions, tflite::CreateCastOptions(fbb, schema(graph.at(op.inputs[0]).dtype),
                                                                        schema(graph.at(op.outputs[0]).dtype)));
    case Kind::kBitcast:  // the output's dtype says all
    case Kind::kQuantize:
    case Kind::kDequantize:
      return {};
    case Kind::kStablehloScatter:
      return stablehlo_scatter(fbb, get<StablehloScatterOptions>(op));
    case Kind::kCustom:
      return custom(fbb, get<CustomOptions>(op));
    default:
      get<NoOptions>(op);
      return {};
  }
}

}  // namespace lowtide::emit
