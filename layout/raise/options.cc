// SPDX-License-Identifier: Apache-2.0
#include "layout/raise/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "stream/error.h"

namespace lowtide::layout {
namespace {

using core::Kind;
using core::Options;
using stream::Code;
using stream::Error;

[[noreturn]] void wrong_options(std::string text) { throw Error(Code::kMalformed, std::move(text)); }

const tfl::Option* find_option(const tfl::Operator& op, std::string_view name) {
  const auto found = std::find_if(op.options.begin(), op.options.end(),
                                  [&](const tfl::Option& option) { return option.name == name; });
  return found == op.options.end() ? nullptr : &*found;
}

// The options of one operator, whose table has to be `table`. LiteRT takes zeros for those without a table;
// `may_be_absent` where its kernel accepts them.
class OptionFields {
 public:
  OptionFields(const tfl::Operator& op, std::string_view table, bool may_be_absent = false) : op_(op) {
    if (op.options_table.empty() && may_be_absent) return;
    if (op.options_table.empty()) wrong_options(fmt::format("it has no options; {} are needed", table));
    if (op.options_table != table)
      wrong_options(fmt::format("it has options of another operator: {} in place of {}", op.options_table, table));
  }

  int number(std::string_view name) const { return int_option(op_, name); }
  int positive(std::string_view name) const {
    const int value = number(name);
    if (value < 1) wrong_options(fmt::format("option {} is {}; it must be positive", name, value));
    return value;
  }
  bool flag(std::string_view name) const {
    const tfl::Option* found = find_option(op_, name);
    if (!found) return false;
    const bool* value = std::get_if<bool>(&found->value);
    if (!value) wrong_options(fmt::format("option {} is not true or false", name));
    return *value;
  }
  float real(std::string_view name) const {
    const tfl::Option* found = find_option(op_, name);
    if (!found) return 0;
    const double* value = std::get_if<double>(&found->value);
    if (!value) wrong_options(fmt::format("option {} is not a number", name));
    return static_cast<float>(*value);
  }
  core::Padding padding() const {
    const int value = number("padding");
    if (value != 0 && value != 1) wrong_options(fmt::format("option padding is {}, neither SAME nor VALID", value));
    return static_cast<core::Padding>(value);
  }
  core::Activation activation() const {
    const int value = number("fused_activation_function");
    constexpr int kLast = static_cast<int>(core::Activation::kRelu6), kLastOfSchema = 5;
    if (value < 0 || value > kLastOfSchema)
      wrong_options(fmt::format("option fused_activation_function is {}, which is no activation", value));
    if (value > kLast)
      throw stream::Unsupported(fmt::format("the fused activation {} is not supported: no kernel of LiteRT computes it",
                                            find_option(op_, "fused_activation_function")->enumerator));
    return static_cast<core::Activation>(value);
  }

 private:
  const tfl::Operator& op_;
};

Options conv_2d(const tfl::Operator& op, bool depthwise) {
  const OptionFields o(op, depthwise ? "DepthwiseConv2DOptions" : "Conv2DOptions");
  return core::Conv2dOptions{.padding = o.padding(),
                             .stride_h = o.positive("stride_h"),
                             .stride_w = o.positive("stride_w"),
                             .dilation_h = o.positive("dilation_h_factor"),
                             .dilation_w = o.positive("dilation_w_factor"),
                             .activation = o.activation(),
                             .depth_multiplier = depthwise ? o.number("depth_multiplier") : 0};
}

Options conv_3d(const tfl::Operator& op) {
  const OptionFields o(op, "Conv3DOptions");
  return core::Conv3dOptions{.padding = o.padding(),
                             .stride_d = o.positive("stride_d"),
                             .stride_h = o.positive("stride_h"),
                             .stride_w = o.positive("stride_w"),
                             .dilation_d = o.positive("dilation_d_factor"),
                             .dilation_h = o.positive("dilation_h_factor"),
                             .dilation_w = o.positive("dilation_w_factor"),
                             .activation = o.activation()};
}

Options transpose_conv(const tfl::Operator& op) {
  const OptionFields o(op, "TransposeConvOptions");
  return core::TransposeConvOptions{.padding = o.padding(),
                                    .stride_h = o.positive("stride_h"),
                                    .stride_w = o.positive("stride_w"),
                                    .activation = o.activation()};
}

Options fully_connected(const tfl::Operator& op) {
  const OptionFields o(op, "FullyConnectedOptions", true);
  if (o.number("weights_format") != 0)
    throw stream::Unsupported("weights in the order SHUFFLED4x16INT8 are not supported");
  return core::FullyConnectedOptions{.activation = o.activation(), .keep_num_dims = o.flag("keep_num_dims")};
}

Options strided_slice(const tfl::Operator& op) {
  const OptionFields o(op, "StridedSliceOptions", true);
  return core::StridedSliceOptions{.begin_mask = o.number("begin_mask"),
                                   .end_mask = o.number("end_mask"),
                                   .shrink_axis_mask = o.number("shrink_axis_mask")};
}

Options squeeze(const tfl::Operator& op) {
  core::SqueezeOptions out;
  const OptionFields o(op, "SqueezeOptions", true);
  const tfl::Option* dims = find_option(op, "squeeze_dims");
  if (!dims) return out;
  const auto* list = std::get_if<std::vector<int64_t>>(&dims->value);
  if (!list) wrong_options("option squeeze_dims is no list");
  for (int64_t dim : *list) out.dims.push_back(static_cast<int32_t>(dim));
  return out;
}

Options resize(const tfl::Operator& op, const char* table) {
  const OptionFields o(op, table, true);
  return core::ResizeOptions{.align_corners = o.flag("align_corners"),
                             .half_pixel_centers = o.flag("half_pixel_centers")};
}

core::BlockOptions block(const tfl::Operator& op, const char* table) {
  return {.block_size = OptionFields(op, table).positive("block_size")};
}

core::BinaryOptions binary(const tfl::Operator& op, const char* table) {
  return {.activation = OptionFields(op, table, true).activation()};
}

Options lrn(const tfl::Operator& op) {
  const OptionFields o(op, "LocalResponseNormalizationOptions");
  return core::LrnOptions{
      .radius = o.number("radius"), .bias = o.real("bias"), .alpha = o.real("alpha"), .beta = o.real("beta")};
}

Options concatenation(const tfl::Operator& op) {
  const OptionFields o(op, "ConcatenationOptions", true);
  return core::ConcatOptions{.axis = o.number("axis"), .activation = o.activation()};
}

Options gather(const tfl::Operator& op) {
  const OptionFields o(op, "GatherOptions", true);
  return core::GatherOptions{.axis = o.number("axis"), .batch_dims = o.number("batch_dims")};
}

}  // namespace

int int_option(const tfl::Operator& op, std::string_view name, int otherwise) {
  const tfl::Option* found = find_option(op, name);
  if (!found) return otherwise;
  const int64_t* value = std::get_if<int64_t>(&found->value);
  if (!value || *value < std::numeric_limits<int32_t>::min() || *value > std::numeric_limits<int32_t>::max())
    wrong_options(fmt::format("option {} is no number of 32 bits", name));
  return static_cast<int>(*value);
}

bool has_offsets(const tfl::Operator& op) { return OptionFields(op, "StridedSliceOptions", true).flag("offset"); }

FakeQuantFields fake_quant_fields(const tfl::Operator& op) {
  const OptionFields o(op, "FakeQuantOptions");
  return {o.real("min"), o.real("max"), o.number("num_bits"), o.flag("narrow_range")};
}

std::vector<float> bucket_boundaries(const tfl::Operator& op) {
  const OptionFields o(op, "BucketizeOptions", true);
  const tfl::Option* found = find_option(op, "boundaries");
  if (!found) return {};
  const auto* list = std::get_if<std::vector<double>>(&found->value);
  if (!list) wrong_options("option boundaries is no list of numbers");
  return {list->begin(), list->end()};
}

core::PoolOptions pool_fields(const tfl::Operator& op) {
  const OptionFields o(op, "Pool2DOptions");
  return {.padding = o.padding(),
          .stride_h = o.positive("stride_h"),
          .stride_w = o.positive("stride_w"),
          .filter_h = o.positive("filter_height"),
          .filter_w = o.positive("filter_width"),
          .activation = o.activation()};
}

core::Activation l2_activation(const tfl::Operator& op) { return OptionFields(op, "L2NormOptions", true).activation(); }

core::Options read_builtin_options(Kind kind, const tfl::Operator& op) {
  switch (kind) {
    case Kind::kConv2d:
      return conv_2d(op, false);
    case Kind::kDepthwiseConv2d:
      return conv_2d(op, true);
    case Kind::kConv3d:
    case Kind::kConv3dTranspose:
      return conv_3d(op);
    case Kind::kTransposeConv:
      return transpose_conv(op);
    case Kind::kAveragePool2d:
    case Kind::kMaxPool2d:
      return pool_fields(op);
    case Kind::kFullyConnected:
      return fully_connected(op);
    case Kind::kBatchMatmul: {
      const OptionFields o(op, "BatchMatMulOptions", true);
      return core::BatchMatmulOptions{.adj_x = o.flag("adj_x"), .adj_y = o.flag("adj_y")};
    }
    case Kind::kSoftmax:
      return core::SoftmaxOptions{.beta = OptionFields(op, "SoftmaxOptions", true).real("beta")};
    case Kind::kConcatenation:
      return concatenation(op);
    case Kind::kAdd:
      return binary(op, "AddOptions");
    case Kind::kSub:
      return binary(op, "SubOptions");
    case Kind::kMul:
      return binary(op, "MulOptions");
    case Kind::kDiv:
      return binary(op, "DivOptions");
    case Kind::kSum:
    case Kind::kMean:
    case Kind::kReduceMax:
    case Kind::kReduceMin:
    case Kind::kReduceProd:
    case Kind::kReduceAny:
    case Kind::kReduceAll:
      return core::ReduceOptions{.keep_dims = OptionFields(op, "ReducerOptions", true).flag("keep_dims")};
    case Kind::kGather:
      return gather(op);
    case Kind::kStridedSlice:
      return strided_slice(op);
    case Kind::kSqueeze:
      return squeeze(op);
    case Kind::kResizeBilinear:
      return resize(op, "ResizeBilinearOptions");
    case Kind::kResizeNearestNeighbor:
      return resize(op, "ResizeNearestNeighborOptions");
    case Kind::kSpaceToDepth:
      return block(op, "SpaceToDepthOptions");
    case Kind::kDepthToSpace:
      return block(op, "DepthToSpaceOptions");
    case Kind::kLocalResponseNormalization:
      return lrn(op);
    case Kind::kSplit:
      return core::SplitOptions{.num = OptionFields(op, "SplitOptions").positive("num_splits")};
    case Kind::kSplitV:
      return core::SplitOptions{.num = OptionFields(op, "SplitVOptions").positive("num_splits")};
    case Kind::kPack:
      return core::PackOptions{.axis = OptionFields(op, "PackOptions").number("axis")};
    case Kind::kUnpack:
      return core::PackOptions{.axis = OptionFields(op, "UnpackOptions").number("axis")};
    case Kind::kLeakyRelu:
      return core::LeakyReluOptions{.alpha = OptionFields(op, "LeakyReluOptions", true).real("alpha")};
    case Kind::kGelu:
      return core::GeluOptions{.approximate = OptionFields(op, "GeluOptions", true).flag("approximate")};
    case Kind::kCumsum: {
      const OptionFields o(op, "CumsumOptions", true);
      return core::CumsumOptions{.exclusive = o.flag("exclusive"), .reverse = o.flag("reverse")};
    }
    case Kind::kMirrorPad: {
      const int mode = OptionFields(op, "MirrorPadOptions").number("mode");
      if (mode != 0 && mode != 1) wrong_options(fmt::format("option mode is {}, neither REFLECT nor SYMMETRIC", mode));
      return core::MirrorPadOptions{.symmetric = mode == 1};
    }
    case Kind::kOneHot:
      return core::OneHotOptions{.axis = OptionFields(op, "OneHotOptions", true).number("axis")};
    case Kind::kReverseSequence: {
      const OptionFields o(op, "ReverseSequenceOptions");
      return core::ReverseSequenceOptions{.sequence_axis = o.number("seq_dim"), .batch_axis = o.number("batch_dim")};
    }
    default:
      return core::NoOptions{};
  }
}

}  // namespace lowtide::layout
