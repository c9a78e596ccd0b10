// SPDX-License-Identifier: Apache-2.0
// The image ops: convolutions, pools, resizes, block moves and the normalisation over channels.
//
// The trap: there are two paddings only. SAME divides the missing elements so that the odd one comes last, and their
// number depends on the size; VALID adds none. All images are NHWC (NDHWC in 3-D), so every op here is fixed to its
// axis order; only the two that work along the last axis alone follow a permutation that keeps it last. Source of the
// semantics: LiteRT's tflite/kernels (padding.h, conv.cc, pooling.cc, transpose_conv.cc, resize_*.cc,
// ...).
#include <fmt/format.h>

#include <array>

#include "layout/core/ops/checks.h"
#include "layout/core/ops/rows.h"

namespace lowtide::core {
namespace {

void need_rank(const OpView& op, size_t input, int rank) {
  if (op.rank(input) != rank)
    reject(op, fmt::format("input {} has rank {}, not {}: {}", input, op.rank(input), rank,
                           stream::to_string(op.shape(input))));
}

void need_bias(const OpView& op, size_t input, Dim channels) {
  if (!op.has(input)) return;
  need_rank(op, input, 1);
  need_equal(op, op.shape(input)[0], channels, "elements of the bias and output channels");
}

struct Axis {
  Dim size;
  int64_t filter;
  int stride, dilation;
};

// How many windows fit along an axis.
Dim windows(const OpView& op, Padding padding, Axis axis) {
  if (axis.stride < 1 || axis.dilation < 1 || axis.filter < 1)
    reject(op,
           fmt::format("filter {}, stride {}, dilation {} must be positive", axis.filter, axis.stride, axis.dilation));
  Symbols& symbols = op.symbols();
  if (padding == Padding::kSame) return symbols.ceil_div(axis.size, axis.stride);
  Dim extent = symbols.add(symbols.mul(axis.filter - 1, axis.dilation), 1);
  Dim out = symbols.add(symbols.floor_div(symbols.sub(axis.size, extent), axis.stride), 1);
  if (!is_symbol(out) && out < 0)
    reject(op, fmt::format("a window of {} does not fit into {} elements", extent, axis.size));
  return out;
}

// Stored of an axis of the weights: they may be computed at run time, but their shape is static.
int64_t weight_extent(const OpView& op, size_t input, size_t axis) {
  Dim dim = op.shape(input)[axis];
  if (!stream::is_static(dim))
    reject(op, fmt::format("the shape of the weights is not static: {}", stream::to_string(op.shape(input))));
  return dim;
}

std::vector<TensorType> image(DType dtype, Shape shape) { return {TensorType{dtype, std::move(shape), std::nullopt}}; }

// Weights [out, h, w, in / groups], or [1, h, w, out] when depthwise.
std::vector<TensorType> infer_conv_2d(const OpView& op) {
  need_rank(op, 0, 4);
  need_rank(op, 1, 4);
  need_one_float(op, 0, 1);
  const auto& options = op.get<Conv2dOptions>();
  const bool depthwise = op.kind == Kind::kDepthwiseConv2d;
  const Dim channels = op.shape(0)[3];
  const int64_t out = weight_extent(op, 1, depthwise ? 3 : 0);
  const int64_t step = weight_extent(op, 1, depthwise ? 0 : 3);
  if (depthwise && step != 1) reject(op, fmt::format("the first extent of depthwise weights is {}, not 1", step));
  if (!is_symbol(channels)) {
    const int64_t a = depthwise ? out : channels, b = depthwise ? channels : step;
    if (a < 1 || b < 1 || a % b != 0) reject(op, fmt::format("{} is not a multiple of {} channels", a, b));
    if (!depthwise && out % (channels / step) != 0)
      reject(op, fmt::format("{} groups do not divide {} filters", channels / step, out));
  }
  need_bias(op, 2, out);
  Dim h = windows(op, options.padding, {op.shape(0)[1], weight_extent(op, 1, 1), options.stride_h, options.dilation_h});
  Dim w = windows(op, options.padding, {op.shape(0)[2], weight_extent(op, 1, 2), options.stride_w, options.dilation_w});
  return image(op.dtype(0), {op.shape(0)[0], h, w, out});
}

// Weights [d, h, w, in, out].
std::vector<TensorType> infer_conv_3d(const OpView& op) {
  need_rank(op, 0, 5);
  need_rank(op, 1, 5);
  need_one_float(op, 0, 1);
  const auto& o = op.get<Conv3dOptions>();
  const int64_t channels = weight_extent(op, 1, 3);
  if (channels < 1) reject(op, "the weights have no channels");
  need_equal(op, op.shape(0)[4], channels, "channels of input and weights");
  need_bias(op, 2, op.shape(1)[4]);
  const std::array<int, 3> stride = {o.stride_d, o.stride_h, o.stride_w};
  const std::array<int, 3> dilation = {o.dilation_d, o.dilation_h, o.dilation_w};
  Shape shape = {op.shape(0)[0]};
  for (size_t i = 0; i < 3; ++i)
    shape.push_back(windows(op, o.padding, {op.shape(0)[i + 1], weight_extent(op, 1, i), stride[i], dilation[i]}));
  shape.push_back(weight_extent(op, 1, 4));
  return image(op.dtype(0), std::move(shape));
}

// Inputs: output shape, weights, image, bias. The weights are [out, h, w, in] in 2-D, [d, h, w, out, in] in 3-D.
std::vector<TensorType> infer_transpose_conv(const OpView& op) {
  const bool volume = op.kind == Kind::kConv3dTranspose;
  const size_t rank = volume ? 5 : 4;
  need_rank(op, 0, 1);
  need_rank(op, 1, static_cast<int>(rank));
  need_rank(op, 2, static_cast<int>(rank));
  need_one_float(op, 2, 1);
  const int64_t out = weight_extent(op, 1, volume ? 3 : 0);
  need_equal(op, op.shape(2).back(), op.shape(1).back(), "channels of input and weights");
  need_bias(op, 3, out);
  Shape shape = {op.shape(2)[0]};
  const std::vector<Dim>* wanted = op.contents(0);
  if (wanted && wanted->size() != rank)
    reject(op, fmt::format("the output shape has {} numbers, not {}", wanted->size(), rank));
  if (wanted) need_equal(op, wanted->back(), out, "channels of the output shape and of the weights");
  for (size_t i = 1; i + 1 < rank; ++i) shape.push_back(wanted ? (*wanted)[i] : op.symbols().fresh("transpose_conv"));
  shape.push_back(out);
  return image(op.dtype(2), std::move(shape));
}

std::vector<TensorType> infer_pool(const OpView& op) {
  need_rank(op, 0, 4);
  const auto& o = op.get<PoolOptions>();
  const Shape& shape = op.shape(0);
  return image(op.dtype(0), {shape[0], windows(op, o.padding, {shape[1], o.filter_h, o.stride_h, 1}),
                             windows(op, o.padding, {shape[2], o.filter_w, o.stride_w, 1}), shape[3]});
}

std::vector<TensorType> infer_resize(const OpView& op) {
  need_rank(op, 0, 4);
  need_rank(op, 1, 1);
  need_equal(op, op.shape(1)[0], 2, "numbers of the size");
  Shape shape = op.shape(0);
  const std::vector<Dim>* size = op.contents(1);
  for (size_t i = 0; i < 2; ++i) shape[i + 1] = size ? (*size)[i] : op.symbols().fresh("resize");
  return image(op.dtype(0), std::move(shape));
}

int64_t block_size(const OpView& op) {
  need_rank(op, 0, 4);
  const int block = op.get<BlockOptions>().block_size;
  if (block < 1) reject(op, fmt::format("block size {} must be positive", block));
  return block;
}

Dim divided(const OpView& op, Dim dim, int64_t by) {
  if (!is_symbol(dim) && dim % by != 0) reject(op, fmt::format("{} is not a multiple of {}", dim, by));
  return op.symbols().floor_div(dim, by);
}

std::vector<TensorType> infer_space_to_depth(const OpView& op) {
  const int64_t block = block_size(op);
  const Shape& s = op.shape(0);
  return image(op.dtype(0),
               {s[0], divided(op, s[1], block), divided(op, s[2], block), op.symbols().mul(s[3], block * block)});
}

std::vector<TensorType> infer_depth_to_space(const OpView& op) {
  const int64_t block = block_size(op);
  const Shape& s = op.shape(0);
  return image(op.dtype(0),
               {s[0], op.symbols().mul(s[1], block), op.symbols().mul(s[2], block), divided(op, s[3], block * block)});
}

std::vector<TensorType> infer_local_response_normalization(const OpView& op) {
  need_rank(op, 0, 4);
  return image(op.dtype(0), op.shape(0));
}

// A convolution of one pixel is a product along the last axis: the axes before it may be in any order.
std::optional<Movement> follow_pointwise(const OpView& op, std::span<const ValueId> outputs, Slot slot,
                                         const Perm& perm) {
  const Shape& filter = op.shape(1);
  const auto& options = op.get<Conv2dOptions>();
  if (filter[1] != 1 || filter[2] != 1 || options.stride_h != 1 || options.stride_w != 1) return std::nullopt;
  return follow_but_last(op, outputs, slot, perm);
}

// Weights OHWI.
constexpr Weights kConv2dWeights = {.data = 0,
                                    .weights = 1,
                                    .bias = 2,
                                    .output_axis = 0,
                                    .input_axis = 3,
                                    .requires_bias = true,
                                    .small = SmallWeights::kEight};
// 1HWC.
constexpr Weights kDepthwiseWeights = {.data = 0,
                                       .weights = 1,
                                       .bias = 2,
                                       .output_axis = 3,
                                       .input_axis = kNone,
                                       .requires_bias = true,
                                       .small = SmallWeights::kDequantized};
// OHWI; input 0 is the shape of the result.
constexpr Weights kTransposeConvWeights = {.data = 2,
                                           .weights = 1,
                                           .bias = 3,
                                           .output_axis = 0,
                                           .input_axis = 3,
                                           .requires_bias = false,
                                           .small = SmallWeights::kDequantized};
// DHWIO.
constexpr Weights kConv3dWeights = {.data = 0,
                                    .weights = 1,
                                    .bias = 2,
                                    .output_axis = 4,
                                    .input_axis = 3,
                                    .requires_bias = false,
                                    .small = SmallWeights::kDequantized};
// DHWOI; input 0 is the shape of the result.
constexpr Weights kConv3dTransposeWeights = {.data = 2,
                                             .weights = 1,
                                             .bias = 3,
                                             .output_axis = 3,
                                             .input_axis = 4,
                                             .requires_bias = false,
                                             .small = SmallWeights::kDequantized};

// An op of a fixed rank and axis order.
constexpr RowFunctions image_functions(Infer infer) {
  return {infer, kNotFolded, kFixed, kNothingToRewrite, kNotMerged};
}
constexpr Builtin convolution(Kind kind, RowFunctions functions, Roles inputs, const Weights* weights,
                              const ActivationField* activation, Integers integers) {
  Builtin row = computing(kind, functions, inputs, {kData});
  row.weights = weights;
  row.activation = activation;
  row.integers = integers;
  return row;
}
constexpr Builtin pool(Kind kind, Integers integers) {
  return with(with(computing(kind, image_functions(infer_pool), {kData}, {kData}), &kActivationIn<PoolOptions>),
              integers);
}

constexpr std::array kConvRows = {
    reading_exactly(
        convolution(Kind::kConv2d, {infer_conv_2d, kNotFolded, follow_pointwise, kNothingToRewrite, kNotMerged},
                    {kData, kData, kData}, &kConv2dWeights, &kActivationIn<Conv2dOptions>, Integers::kRescaled),
        1),
    reading_exactly(convolution(Kind::kDepthwiseConv2d, image_functions(infer_conv_2d), {kData, kData, kData},
                                &kDepthwiseWeights, &kActivationIn<Conv2dOptions>, Integers::kRescaled),
                    1),
    convolution(Kind::kTransposeConv, image_functions(infer_transpose_conv), {kIndices32, kData, kData, kData},
                &kTransposeConvWeights, &kActivationIn<TransposeConvOptions>, Integers::kRescaled),
    convolution(Kind::kConv3d, image_functions(infer_conv_3d), {kData, kData, kData}, &kConv3dWeights,
                &kActivationIn<Conv3dOptions>, Integers::kNone),
    convolution(Kind::kConv3dTranspose, image_functions(infer_transpose_conv), {kIndices32, kData, kData, kData},
                &kConv3dTransposeWeights, kNoActivation, Integers::kNone),
    pool(Kind::kAveragePool2d, Integers::kOneScale),
    pool(Kind::kMaxPool2d, Integers::kChosen),
    with(computing(Kind::kResizeBilinear, image_functions(infer_resize), {kData, kIndices32}, {kData}),
         Integers::kOneScale),
    moving(Kind::kResizeNearestNeighbor, image_functions(infer_resize), {kData, kIndices32}),
    moving(Kind::kSpaceToDepth, image_functions(infer_space_to_depth), {kData}),
    moving(Kind::kDepthToSpace, image_functions(infer_depth_to_space), {kData}),
    computing(Kind::kLocalResponseNormalization,
              {infer_local_response_normalization, kNotFolded, follow_but_last, kNothingToRewrite, kNotMerged}, {kData},
              {kData}),
};

}  // namespace

std::span<const Builtin> conv_builtins() { return kConvRows; }

}  // namespace lowtide::core
