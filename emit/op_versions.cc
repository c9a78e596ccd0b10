// SPDX-License-Identifier: Apache-2.0
#include "emit/op_versions.h"

#include <algorithm>

namespace lowtide::emit {
namespace {

using core::DType;
using core::Graph;
using core::Kind;
using core::Op;
using core::Value;

// An op with its tensors' types at hand; an absent input is of type kUndefined and rank 0.
class Signature {
 public:
  Signature(const Graph& graph, const Op& op) : graph_(graph), op_(op) {}

  const Value* input(size_t i) const {
    return i < op_.inputs.size() && op_.inputs[i] != core::kAbsent ? &graph_.at(op_.inputs[i]) : nullptr;
  }
  DType in(size_t i) const { return input(i) ? input(i)->dtype : DType::kUndefined; }
  DType out(size_t i = 0) const { return i < op_.outputs.size() ? graph_.at(op_.outputs[i]).dtype : DType::kUndefined; }
  int rank(size_t i = 0) const { return input(i) ? input(i)->rank() : 0; }
  bool quantized(size_t i) const { return input(i) && input(i)->quantization; }
  bool per_channel(size_t i) const { return quantized(i) && input(i)->quantization->scale.size() > 1; }
  bool types(DType first, DType second, DType result) const {
    return in(0) == first && in(1) == second && out() == result;
  }
  bool all(DType dtype) const { return types(dtype, dtype, dtype); }
  bool either(DType dtype) const { return in(0) == dtype || out() == dtype; }
  bool hybrid() const { return types(DType::kFloat32, DType::kInt8, DType::kFloat32); }
  // Two inputs of different shapes, one of more than four dimensions.
  bool broadcasts_high_rank() const {
    return input(0) && input(1) && input(0)->shape != input(1)->shape && std::max(rank(0), rank(1)) > 4;
  }
  template <typename T>
  const T& options() const {
    static const T kDefaults;
    const T* options = std::get_if<T>(&op_.options);
    return options ? *options : kDefaults;
  }
  const Value& result() const { return graph_.at(op_.outputs[0]); }

 private:
  const Graph& graph_;
  const Op& op_;
};

constexpr DType kF32 = DType::kFloat32, kF16 = DType::kFloat16, kI4 = DType::kInt4, kI8 = DType::kInt8,
                kI16 = DType::kInt16, kI32 = DType::kInt32, kI64 = DType::kInt64, kU8 = DType::kUint8,
                kU32 = DType::kUint32, kBool = DType::kBool, kBF16 = DType::kBFloat16, kI2 = DType::kInt2,
                kU4 = DType::kUint4, kE4M3 = DType::kFloat8E4M3FN, kE5M2 = DType::kFloat8E5M2;

// The rule of many kernels: what a type of the first input asks for; 1 for all other types.
struct TypeVersion {
  DType dtype;
  int version;
};
int by_type(DType dtype, std::initializer_list<TypeVersion> rules) {
  for (const TypeVersion& rule : rules)
    if (rule.dtype == dtype) return rule.version;
  return 1;
}

int conv_2d(const Signature& s) {
  const Value *x = s.input(0), *weights = s.input(1);
  if (x && weights && x->rank() == 4 && weights->rank() == 4 && x->shape[3] != weights->shape[3]) return 6;  // groups
  if (s.in(0) == kI16 && s.in(1) == kI16) return 4;
  if (s.all(kI8)) return 3;
  if (s.types(kI8, kI4, kI8)) return 7;
  if (s.hybrid()) return s.per_channel(1) ? 5 : 2;
  return 1;
}

int depthwise_conv_2d(const Signature& s) {
  if (s.in(0) == kI16 && s.in(1) == kI16) return 5;
  if (s.hybrid()) return s.per_channel(1) ? 6 : 4;
  if (s.all(kI8)) return 3;
  if (s.types(kI8, kI4, kI8)) return 7;
  const auto& o = s.options<core::Conv2dOptions>();
  return o.dilation_w != 1 || o.dilation_h != 1 ? 2 : 1;
}

int fully_connected(const Signature& s) {
  const auto& o = s.options<core::FullyConnectedOptions>();
  if (s.types(kI16, kI4, kI16)) return 13;
  if (s.hybrid() && s.per_channel(1)) return 12;
  // No version says that the kernel takes these: 12 is of a runtime that does.
  if (s.types(kF32, kI4, kF32)) return 12;
  if (s.all(kI16)) return 7;
  if (!s.input(2)) return 6;
  if (o.keep_num_dims) return 5;
  if (s.all(kI8)) return 4;
  if (s.types(kI8, kI4, kI8)) return 10;
  if (s.hybrid()) return o.asymmetric_quantize_inputs ? 9 : 3;
  return 1;
}

int transpose_conv(const Signature& s) {
  if (s.options<core::TransposeConvOptions>().activation != core::Activation::kNone) return 4;
  if (s.input(3)) return 3;
  return s.in(1) == kI8 ? 2 : 1;
}

int embedding_lookup(const Signature& s) {
  if (s.in(1) == kI4 || s.per_channel(1)) return 4;
  return s.in(1) == kI8 ? 3 : 1;
}

int gather(const Signature& s) {
  if (s.in(0) == kI4) return 7;
  if (s.in(1) == kI16) return 6;
  if (s.options<core::GatherOptions>().batch_dims != 0) return 5;
  return by_type(s.in(0), {{kI16, 4}, {kBool, 3}, {kI8, 2}});
}

int gather_nd(const Signature& s) {
  if (s.in(0) == kBool) return 5;
  if (s.in(1) == kI16) return 4;
  return s.in(0) == kI16 ? 3 : 1;
}

int add(const Signature& s) {
  if (s.in(0) == kI16) return s.quantized(0) ? 3 : 5;  // we never write power-of-two scales as such
  return by_type(s.in(0), {{kF16, 6}, {kI64, 4}, {kI8, 2}});
}

int sub(const Signature& s) {
  if (s.in(0) == kI16) return 5;
  if (s.in(0) == kI64) return 4;
  if (s.broadcasts_high_rank()) return 3;
  return s.in(0) == kI8 ? 2 : 1;
}

// A quantized product whose scale is 1 or more needs a kernel that multiplies by more than 1.
bool scales_up(const Signature& s) {
  const Value& out = s.result();
  if (!s.quantized(0) || !s.quantized(1) || !out.quantization) return false;
  auto scale = [](const Value& value) { return value.quantization->scale.at(0); };
  return scale(*s.input(0)) * scale(*s.input(1)) / scale(out) >= 1.0f;
}

int mul(const Signature& s) {
  if (s.in(0) == kF16) return 8;
  if ((s.in(0) == kI16 && !s.quantized(0)) || s.in(0) == kU32) return 7;
  if (s.in(0) == kI64) return 5;
  if (s.in(0) == kI16) return 4;
  if (scales_up(s)) return 3;
  return s.in(0) == kI8 ? 2 : 1;
}

int maximum(const Signature& s) {
  if (s.in(0) == kI16) return 4;
  if (s.broadcasts_high_rank()) return 3;
  return s.in(0) == kI8 ? 2 : 1;
}

int transpose(const Signature& s) {
  int by_dtype = by_type(s.in(0), {{kF16, 9}, {kBF16, 8}, {kI4, 7}});
  if (by_dtype > 1) return by_dtype;
  if (s.rank() > 5) return 6;
  if (s.in(0) == kI16) return 5;
  if (s.rank() > 4) return 4;
  return by_type(s.in(0), {{kBool, 3}, {kI8, 2}});
}

int slice(const Signature& s) {
  int by_dtype = by_type(s.in(0), {{kF16, 8}, {kI4, 7}, {kU32, 6}});
  if (by_dtype > 1) return by_dtype;
  if (s.rank() > 4) return 5;
  return by_type(s.in(0), {{kI16, 4}, {kI8, 2}});
}

int strided_slice(const Signature& s) {
  const auto& o = s.options<core::StridedSliceOptions>();
  if (o.offset) return 8;
  if (s.in(0) == kU32) return 7;
  if (o.ellipsis_mask != 0 || o.new_axis_mask != 0) return 6;
  if (s.rank() > 4) return 4;
  return by_type(s.in(0), {{kBool, 3}, {kI8, 2}});
}

int pad(const Signature& s) {
  if (s.in(0) == kBool) return 5;
  if (s.rank() > 4) return 4;
  return by_type(s.in(0), {{kI16, 3}, {kI8, 2}});
}

int batch_space(const Signature& s) {
  if (s.in(0) == kI16) return 4;
  if (s.rank() != 4) return 3;
  return s.in(0) == kI8 ? 2 : 1;
}

int resize_bilinear(const Signature& s) {
  if (s.in(0) == kI16) return 4;
  if (s.options<core::ResizeOptions>().half_pixel_centers) return 3;
  return s.in(0) == kI8 ? 2 : 1;
}

int resize_nearest(const Signature& s) {
  const auto& o = s.options<core::ResizeOptions>();
  if (s.in(0) == kI16) return 4;
  if (o.half_pixel_centers || o.align_corners) return 3;
  return s.in(0) == kI8 ? 2 : 1;
}

int quantize(const Signature& s) {
  if (s.either(kU4)) return 5;
  if (s.either(kI4)) return 4;
  if (s.result().quantization && s.result().quantization->scale.size() > 1) return 3;
  return s.out() == kI16 ? 2 : 1;
}

int dequantize(const Signature& s) {
  if (s.in(0) == kI8) return s.per_channel(0) ? 5 : 2;
  return by_type(s.in(0), {{kE4M3, 9}, {kE5M2, 9}, {kU4, 8}, {kI2, 7}, {kI4, 6}, {kI16, 3}, {kF16, 3}});
}

int cast(const Signature& s) {
  if (s.either(kE4M3) || s.either(kE5M2)) return 9;
  if (s.either(kI2) || s.either(kU4)) return 8;
  if (s.either(kBF16)) return 7;
  if (s.in(0) == kI4 && s.out() == kF32) return 6;
  if (s.either(DType::kFloat64) || s.either(kF16)) return 5;
  if (s.either(DType::kUint16)) return 4;
  if (s.either(kI8)) return 3;
  return s.either(kU32) ? 2 : 1;
}

int abs(const Signature& s) {
  if (s.in(0) == kI16) return s.quantized(0) ? 3 : 4;
  return by_type(s.in(0), {{kI32, 5}, {kI8, 2}, {kU8, 2}});
}

int batch_matmul(const Signature& s) {
  if (s.hybrid()) return s.options<core::BatchMatmulOptions>().asymmetric_quantize_inputs ? 4 : 1;
  return by_type(s.in(0), {{kI16, 3}, {kI8, 2}});
}

int top_k(const Signature& s) {
  if (s.in(0) == kI16 || s.in(1) == kI16 || s.out(1) == kI16) return 3;
  return s.in(0) == kI8 ? 2 : 1;
}

int select(const Signature& s) {
  if (s.rank(0) == 5 || s.rank(1) == 5 || s.rank(2) == 5) return 3;
  return by_type(s.in(0), {{kU32, 4}, {kI8, 2}});
}

int sequence_lstm(const Signature& s) {
  const auto& o = s.options<core::SequenceOptions>();
  if (s.in(0) == kI16 && s.in(2) == kI8) return 5;
  if (o.diagonal_recurrent) return 4;
  if (s.in(0) == kF32 && s.in(2) == kI8) return o.asymmetric_quantize_inputs ? 3 : 2;
  return 1;
}

int recurrent(const Signature& s) {
  if (s.in(1) == kI8 && s.out() == kF32) return s.options<core::SequenceOptions>().asymmetric_quantize_inputs ? 3 : 2;
  return 1;
}

}  // namespace

int op_version(const Graph& graph, const Op& op) {
  Signature s(graph, op);
  switch (op.kind) {
    case Kind::kConv2d:
      return conv_2d(s);
    case Kind::kDepthwiseConv2d:
      return depthwise_conv_2d(s);
    case Kind::kFullyConnected:
      return fully_connected(s);
    case Kind::kTransposeConv:
      return transpose_conv(s);
    case Kind::kEmbeddingLookup:
      return embedding_lookup(s);
    case Kind::kGather:
      return gather(s);
    case Kind::kGatherNd:
      return gather_nd(s);
    case Kind::kAdd:
      return add(s);
    case Kind::kSub:
      return sub(s);
    case Kind::kMul:
      return mul(s);
    case Kind::kDiv:
      return s.broadcasts_high_rank() ? 2 : 1;
    case Kind::kMaximum:
    case Kind::kMinimum:
      return maximum(s);
    case Kind::kTranspose:
      return transpose(s);
    case Kind::kSlice:
      return slice(s);
    case Kind::kStridedSlice:
      return strided_slice(s);
    case Kind::kPad:
    case Kind::kPadv2:
      return pad(s);
    case Kind::kSpaceToBatchNd:
    case Kind::kBatchToSpaceNd:
      return batch_space(s);
    case Kind::kResizeBilinear:
      return resize_bilinear(s);
    case Kind::kResizeNearestNeighbor:
      return resize_nearest(s);
    case Kind::kQuantize:
      return quantize(s);
    case Kind::kDequantize:
      return dequantize(s);
    case Kind::kCast:
      return cast(s);
    case Kind::kAbs:
      return abs(s);
    case Kind::kBatchMatmul:
      return batch_matmul(s);
    case Kind::kTopkV2:
      return top_k(s);
    case Kind::kSelect:
      return select(s);
    case Kind::kUnidirectionalSequenceLstm:
      return sequence_lstm(s);
    case Kind::kBidirectionalSequenceLstm:
    case Kind::kUnidirectionalSequenceRnn:
    case Kind::kBidirectionalSequenceRnn:
      return recurrent(s);
    case Kind::kSplit:
      return by_type(s.in(1), {{kI16, 4}, {kI32, 3}, {kI8, 2}});  // input 0 is the axis
    case Kind::kSplitV:
    case Kind::kSpaceToDepth:
    case Kind::kDepthToSpace:
    case Kind::kSum:
    case Kind::kLogSoftmax:
    case Kind::kGreater:
    case Kind::kLessEqual:
    case Kind::kSquaredDifference:
      return by_type(s.in(0), {{kI8, 2}});
    case Kind::kMaxPool2d:
    case Kind::kAveragePool2d:
    case Kind::kTanh:
    case Kind::kLogistic:
    case Kind::kMean:
    case Kind::kMirrorPad:
    case Kind::kReduceMax:
    case Kind::kReduceMin:
    case Kind::kRelu6:
    case Kind::kRsqrt:
    case Kind::kLess:
    case Kind::kGreaterEqual:
      return by_type(s.in(0), {{kI16, 3}, {kI8, 2}});
    case Kind::kSoftmax:
      return by_type(s.in(0), {{kF16, 4}, {kI16, 3}, {kI8, 2}});
    case Kind::kConcatenation:
      return by_type(s.in(0), {{kF16, 6}, {kI4, 5}, {kU32, 4}, {kI16, 3}, {kI8, 2}});
    case Kind::kRelu:
      return by_type(s.in(0), {{kI16, 3}, {kI8, 2}, {kU8, 2}});
    case Kind::kEqual:
      return by_type(s.in(0), {{kI16, 5}, {kI8, 2}});
    case Kind::kNotEqual:
      return by_type(s.in(0), {{kI16, 4}, {kI8, 2}});
    case Kind::kUnpack:
      return by_type(s.in(0), {{kF16, 5}, {kBF16, 5}, {kI16, 4}, {kBool, 3}, {kI8, 2}, {kU8, 2}});
    case Kind::kPack:
      return by_type(s.in(0), {{kU32, 4}, {kI16, 3}, {kI8, 2}});
    case Kind::kTile:
      return by_type(s.in(0), {{kI8, 3}});
    case Kind::kFloorDiv:
      return by_type(s.in(0), {{kI16, 3}, {kI8, 3}, {kF32, 2}});
    case Kind::kFloorMod:
    case Kind::kExp:
    case Kind::kLog:
    case Kind::kSqrt:
    case Kind::kReduceProd:
      return by_type(s.in(0), {{kI16, 2}, {kI8, 2}});
    case Kind::kReverseV2:
      return by_type(s.in(0), {{kI8, 3}, {kBool, 2}});
    case Kind::kFill:
      return by_type(s.in(1), {{kF16, 4}, {kI16, 3}, {kI8, 3}, {kBool, 2}});
    case Kind::kBroadcastTo:
      return s.in(0) == kI8 || s.in(0) == kI16 ? 3 : 2;  // version 1 was withdrawn
    case Kind::kLeakyRelu:
      return by_type(s.in(0), {{kI16, 2}});
    case Kind::kRange:
      return by_type(s.in(0), {{kI64, 2}});
    case Kind::kL2Normalization:
      return s.out() == kI8 ? 2 : 1;
    case Kind::kArgMax:
    case Kind::kArgMin:
      return by_type(s.in(0), {{kBool, 3}, {kI8, 2}});
    case Kind::kSelectV2:
      return by_type(s.in(0), {{kU32, 2}});
    case Kind::kSign:
      return by_type(s.in(0), {{kI32, 2}});
    case Kind::kWhere:
      return s.in(0) == kBool ? 1 : 2;
    case Kind::kGelu:
      return by_type(s.in(0), {{kF16, 3}, {kI8, 2}, {kU8, 2}});
    case Kind::kDynamicUpdateSlice:
      if (s.in(2) == kI64) return std::max(2, by_type(s.in(0), {{kBF16, 6}, {kI4, 5}, {kI16, 4}, {kF16, 3}}));
      return by_type(s.in(0), {{kBF16, 6}, {kI4, 5}, {kI16, 4}, {kF16, 3}});
    default:
      return 1;
  }
}

}  // namespace lowtide::emit
