// SPDX-License-Identifier: Apache-2.0
// Conv and what other operators need of it. ONNX has [N, C, spatial...] and weights [M, C/group, kernel...]; TFLite has
// [N, spatial..., C] and weights OHWI (2-D), 1HWC (depthwise), DHWIO (3-D). CONV_2D derives the number of groups from
// the shapes: input channels / input channels of the weights. CONV_3D has no groups, so they are split and
// concatenated. A 1-D convolution becomes 2-D with height 1, and so does a 3-D one whose windows are one slice thick,
// do not overlap, or are one column: XNNPACK and GPU delegates have no CONV_3D. Pads: sliding_window.h.
#include "layout/lower/conv.h"

#include <fmt/format.h>

#include <optional>

#include "layout/lower/shapes_and_indices.h"
#include "layout/lower/sliding_window.h"

namespace lowtide::layout {
namespace {

core::Conv2dOptions options_2d(std::span<const WindowAxis> axes, Padding padding) {
  return {.padding = padding,
          .stride_h = static_cast<int>(axes[0].stride),
          .stride_w = static_cast<int>(axes[1].stride),
          .dilation_h = static_cast<int>(axes[0].dilation),
          .dilation_w = static_cast<int>(axes[1].dilation)};
}

core::Conv3dOptions options_3d(std::span<const WindowAxis> axes, Padding padding) {
  return {.padding = padding,
          .stride_d = static_cast<int>(axes[0].stride),
          .stride_h = static_cast<int>(axes[1].stride),
          .stride_w = static_cast<int>(axes[2].stride),
          .dilation_d = static_cast<int>(axes[0].dilation),
          .dilation_h = static_cast<int>(axes[1].dilation),
          .dilation_w = static_cast<int>(axes[2].dilation)};
}

// x is NHWC, weights are ONNX's [M, C/group, h, w].
Val conv_image(Lowering& lo, Val x, Val weights, Val bias, std::span<const WindowAxis> axes, Padding padding,
               int64_t group) {
  Builder& b = lo.b;
  core::Conv2dOptions options = options_2d(axes, padding);
  const bool depthwise = group > 1 && lo.b.dim(weights, 1) == 1;
  if (!depthwise) return b.conv_2d(x, b.transpose(weights, {0, 2, 3, 1}), bias, options);
  options.depth_multiplier = static_cast<int>(lo.b.dim(weights, 0) / group);
  return b.depthwise_conv_2d(x, b.transpose(weights, {1, 2, 3, 0}), bias, options);
}

// x is NDHWC, weights are ONNX's [M, C/group, d, h, w].
Val conv_volume(Lowering& lo, Val x, Val weights, Val bias, std::span<const WindowAxis> axes, Padding padding,
                int64_t group) {
  Builder& b = lo.b;
  const core::Conv3dOptions options = options_3d(axes, padding);
  const Perm perm = {2, 3, 4, 1, 0};
  if (group == 1) return b.conv_3d(x, b.transpose(weights, perm), bias, options);
  const Shape shape = lo.shape(weights);
  const size_t parts = static_cast<size_t>(group);
  std::vector<Val> xs = b.split(x, group, shape[1], 4);
  std::vector<Val> ws = b.split(weights, group, shape[0] / group, 0);
  std::vector<Val> biases(parts);
  if (bias) biases = b.split(bias, group, shape[0] / group, 0);
  for (size_t i = 0; i < parts; ++i) xs[i] = b.conv_3d(xs[i], b.transpose(ws[i], perm), biases[i], options);
  return b.concat(xs, 4);
}

// Whether windows of the axis lie side by side and cover it.
bool is_divided(const WindowAxis& axis) {
  if (axis.before != 0 || axis.after != 0 || axis.stride != axis.kernel) return false;
  if (axis.kernel == 1) return true;
  return axis.dilation == 1 && stream::is_static(axis.size) && axis.size % axis.kernel == 0;
}

// x is NCDHW. The slices of a window become channels, and the windows become batches: as patches of videos are
// embedded, and slices are filtered one by one. Weights are ONNX's; the result is NCDHW.
Val conv_slices(Lowering& lo, Val x, Val weights, Val bias, std::span<const WindowAxis> axes, int64_t group) {
  Builder& b = lo.b;
  const Shape shape = lo.shape(x), filters = lo.shape(weights);
  const Dim thick = axes[0].kernel, windows = thick == 1 ? shape[2] : shape[2] / thick;
  const Dim batches = b.graph.symbols.mul(shape[0], windows);
  Val image;
  if (thick == 1) {
    image = to_image(lo, x);
    weights = b.reshape(weights, {filters[0], filters[1], filters[3], filters[4]});
  } else {
    image = b.reshape(x, {shape[0], shape[1], windows, thick, shape[3], shape[4]});
    image = b.transpose(image, {0, 2, 4, 5, 3, 1});
    weights =
        b.reshape(b.transpose(weights, {0, 2, 1, 3, 4}), {filters[0], thick * filters[1], filters[3], filters[4]});
  }
  image = reshape_to(lo, image, std::vector<Dim>{batches, shape[3], shape[4], thick * shape[1]});
  const Padding padding = choose_padding(lo, image, axes.subspan(1), 1, 0);
  const Val y = conv_image(lo, image, weights, bias, axes.subspan(1), padding, group);
  return from_image(lo, reshape_to(lo, y, std::vector<Dim>{shape[0], windows, axes[1].out, axes[2].out, filters[0]}),
                    3);
}

// x is NCDHW, and windows are columns along D: H and W are one axis.
Val conv_columns(Lowering& lo, Val x, Val weights, Val bias, std::span<const WindowAxis> axes, int64_t group) {
  Builder& b = lo.b;
  const Shape shape = lo.shape(x), filters = lo.shape(weights);
  Val image = to_image(lo, b.reshape(x, {shape[0], shape[1], shape[2], shape[3] * shape[4]}));
  WindowAxis across;
  across.size = across.out = shape[3] * shape[4];
  const WindowAxis both[] = {axes[0], across};
  const Padding padding = choose_padding(lo, image, both, 1, 0);
  weights = b.reshape(weights, {filters[0], filters[1], filters[2], 1});
  const Val y = from_image(lo, conv_image(lo, image, weights, bias, both, padding, group), 2);
  return b.reshape(y, {shape[0], filters[0], axes[0].out, shape[3], shape[4]});
}

// The same with CONV_2D, where that is possible and the RESHAPEs are free.
std::optional<Val> conv_volume_in_two(Lowering& lo, Val x, Val weights, Val bias, std::span<const WindowAxis> axes,
                                      int64_t group) {
  const Shape shape = lo.shape(x);
  if (!stream::is_static(std::span(shape).subspan(1))) return std::nullopt;
  if (is_divided(axes[0]) && (group == 1 || axes[0].kernel == 1)) return conv_slices(lo, x, weights, bias, axes, group);
  if (is_divided(axes[1]) && axes[1].kernel == 1 && is_divided(axes[2]) && axes[2].kernel == 1)
    return conv_columns(lo, x, weights, bias, axes, group);
  return std::nullopt;
}

void check_channels(Lowering& lo, Dim channels, const std::vector<int64_t>& weights, int64_t group) {
  if (group < 1) lo.malformed(fmt::format("attribute 'group' must be positive; it is {}", group));
  if (!core::is_symbol(channels) && (channels % group != 0 || channels / group != weights[1]))
    lo.malformed(fmt::format("the input has {} channels, but the weights have {} channels times {} groups", channels,
                             weights[1], group));
  if (weights[1] == 0)
    lo.unsupported("a convolution of an input without channels is not supported", "its result is the bias: use Expand");
  if (weights[0] % group != 0)
    lo.malformed(fmt::format("the number of filters {} must be a multiple of group {}", weights[0], group));
}

// Pads that are computed at run time (SAME as exporters of dynamic sizes write it) leave the number of channels open; a
// valid model has as many as the weights.
void take_channels_of_weights(Lowering& lo, Val x, const std::vector<int64_t>& weights, int64_t group) {
  core::Value& value = lo.b.graph.at(x.id);
  const int64_t limit = std::numeric_limits<int32_t>::max();
  if (core::is_symbol(value.shape[1]) && value.producer >= 0 && group <= limit / std::max<int64_t>(weights[1], 1))
    value.shape[1] = weights[1] * group;
  else if (group > 1)
    lo.need_static(value.shape[1], "the number of channels of a grouped convolution");
}

}  // namespace

Val convolution(Lowering& lo, Val x, Val weights, Val bias) {
  const int spatial = lo.rank(x) - 2;
  if (spatial < 1) lo.malformed(fmt::format("the input must have rank 3 or more; it has rank {}", lo.rank(x)));
  if (lo.rank(weights) != lo.rank(x))
    lo.malformed(
        fmt::format("the weights must have the input's rank {}; they have rank {}", lo.rank(x), lo.rank(weights)));
  if (spatial > 3)
    lo.unsupported(
        fmt::format("a convolution over {} axes is not supported: TFLite has 2-D and 3-D convolutions", spatial));
  const std::vector<int64_t> shape = lo.need_static(lo.shape(weights), "the shape of the weights");
  const int64_t group = lo.attr_count("group", 1);
  check_channels(lo, lo.b.dim(x, 1), shape, group);
  take_channels_of_weights(lo, x, shape, group);

  const Shape sizes(lo.shape(x).begin() + 2, lo.shape(x).end());
  std::vector<WindowAxis> axes = as_image(read_window(lo, sizes, std::vector<int64_t>(shape.begin() + 2, shape.end())));
  if (spatial == 3)
    if (const auto y = conv_volume_in_two(lo, x, weights, bias, axes, group)) return *y;
  if (spatial == 1) weights = lo.b.reshape(weights, {shape[0], shape[1], 1, shape[2]});
  x = to_image(lo, x);
  const Padding padding = choose_padding(lo, x, axes, 1, 0);
  Val y = spatial == 3 ? conv_volume(lo, x, weights, bias, axes, padding, group)
                       : conv_image(lo, x, weights, bias, axes, padding, group);
  return from_image(lo, y, spatial);
}

void lower_conv(Lowering& lo) { lo.output(0, convolution(lo, lo.input(0), lo.input(1), lo.optional_input(2))); }

}  // namespace lowtide::layout
