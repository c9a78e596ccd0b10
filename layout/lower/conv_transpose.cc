// SPDX-License-Identifier: Apache-2.0
// ConvTranspose. ONNX crops the full result by pads and may extend it by output_padding. TFLite is given the size of
// the output; SAME crops (half of the surplus at the front), VALID does not (its size may exceed the full one by less
// than a stride). So SAME is used where it crops as ONNX does, else VALID and a SLICE.
//
// Weights: ONNX [C, M/group, kernel...]; TFLite OHWI, in 3-D DHWOI. The 2-D kernel has no dilation (zeros are inserted
// into the weights instead), and neither has groups (split and concatenated, or padded with zeros). 1-D becomes 2-D
// with height 1. Sources: ONNX's ConvTranspose; LiteRT's transpose_conv.cc, conv3d_transpose.cc; the limits of
// XNNPACK's deconvolution.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "layout/core/integer_constant.h"
#include "layout/lower/attributes.h"
#include "layout/lower/sliding_window.h"

namespace lowtide::layout {
namespace {

// Along one axis: the output is the `out` elements of the `full` result that start at `before`.
struct Crop {
  int64_t kernel = 1, stride = 1, dilation = 1;
  Dim size = 1, full = 1, out = 1;
  int64_t before = 0;

  int64_t effective_kernel() const { return (kernel - 1) * dilation + 1; }
};

struct Attributes {
  std::string auto_pad;
  std::vector<int64_t> stride, dilation, pads, output_padding;
  std::optional<std::vector<int64_t>> output_shape;
};

Attributes read_attributes(Lowering& lo, const std::vector<int64_t>& kernel) {
  const size_t count = kernel.size();
  if (auto given = lo.attr_ints("kernel_shape"); given && *given != kernel)
    lo.malformed(fmt::format("attribute 'kernel_shape' is {}, but the weights have {}", stream::to_string(*given),
                             stream::to_string(kernel)));
  Attributes a{.auto_pad = lo.attr_s("auto_pad", "NOTSET"),
               .stride = attr_int_list(lo, "strides", count, 1, 1),
               .dilation = attr_int_list(lo, "dilations", count, 1, 1),
               .pads = attr_int_list(lo, "pads", 2 * count, 0, 0),
               .output_padding = attr_int_list(lo, "output_padding", count, 0, 0),
               .output_shape = lo.attr_ints("output_shape")};
  // Some exporters include batch and channels.
  if (a.output_shape && a.output_shape->size() == count + 2)
    a.output_shape->erase(a.output_shape->begin(), a.output_shape->begin() + 2);
  if (a.output_shape && a.output_shape->size() != count)
    lo.malformed(
        fmt::format("attribute 'output_shape' must have {} elements; it has {}", count, a.output_shape->size()));
  if (a.auto_pad.empty()) a.auto_pad = "NOTSET";  // as in sliding_window.cc
  for (const char* known : {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"})
    if (a.auto_pad == known) return a;
  lo.malformed(fmt::format("attribute 'auto_pad' has the unknown value '{}'", a.auto_pad));
}

// a - b, which must be a number. Usually both are stride * size plus a constant.
int64_t difference(Lowering& lo, Dim a, Dim b) {
  const Dim dim = lo.b.graph.symbols.sub(a, b);
  return core::is_symbol(dim) ? lo.need_static(dim, "the size of an axis whose output_shape is given") : dim;
}

// With SAME and output_shape the size determines the pads: an odd one is at the end for SAME_UPPER, else at the front.
Crop read_crop(Lowering& lo, const Attributes& a, size_t i, int64_t kernel, Dim size) {
  core::Symbols& symbols = lo.b.graph.symbols;
  Crop crop{.kernel = kernel, .stride = a.stride[i], .dilation = a.dilation[i], .size = size};
  if (kernel < 1 || kernel > std::numeric_limits<int32_t>::max() / crop.dilation)
    lo.malformed(fmt::format("kernel size {} with dilation {} is out of range", kernel, crop.dilation));
  crop.full = symbols.add(symbols.mul(symbols.sub(size, 1), crop.stride), crop.effective_kernel());
  const Dim longest = symbols.add(crop.full, a.output_padding[i]);
  const bool same = a.auto_pad == "SAME_UPPER" || a.auto_pad == "SAME_LOWER";
  if (!a.output_shape && !same) {
    const size_t count = a.stride.size();
    const bool explicit_pads = a.auto_pad == "NOTSET";
    crop.before = explicit_pads ? a.pads[i] : 0;
    crop.out = symbols.sub(longest, crop.before + (explicit_pads ? a.pads[count + i] : 0));
  } else {
    crop.out = a.output_shape ? (*a.output_shape)[i] : symbols.mul(size, crop.stride);
    const int64_t total = std::max<int64_t>(0, difference(lo, longest, crop.out));
    if (!a.output_shape) crop.out = symbols.sub(longest, total);  // a kernel shorter than the stride reaches no further
    crop.before = a.auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
  }
  if (!core::is_symbol(crop.out) && crop.out < 1)
    lo.malformed(fmt::format("the output would have size {} along spatial axis {}", crop.out, i));
  return crop;
}

// Whether TFLite's SAME crops as ONNX does: by half of the surplus, rounded down. XNNPACK requires a kernel that is not
// shorter than the stride.
bool fits_same(Lowering& lo, const Crop& crop) {
  const Dim even = lo.b.graph.symbols.mul(crop.size, crop.stride);
  const int64_t short_of = difference(lo, even, crop.out);
  if (short_of < 0 || short_of >= crop.stride || crop.effective_kernel() < crop.stride) return false;
  return crop.before == difference(lo, crop.full, crop.out) / 2 && difference(lo, crop.full, crop.out) >= 0;
}

// The output size given to VALID: up to the end of the wanted part, as far as VALID allows.
Dim valid_size(Lowering& lo, const Crop& crop) {
  const int64_t beyond = difference(lo, lo.b.graph.symbols.add(crop.out, crop.before), crop.full);
  return lo.b.graph.symbols.add(crop.full, std::clamp<int64_t>(beyond, 0, crop.stride - 1));
}

// [C, M, h, w] with dilation - 1 zeros between the elements of each row and column.
Val dilated_weights(Lowering& lo, Val weights, std::span<const Crop> crops) {
  Builder& b = lo.b;
  for (size_t i = 0; i < crops.size(); ++i) {
    const int64_t d = crops[i].dilation;
    if (d == 1) continue;
    const Shape shape = lo.shape(weights);
    const size_t axis = i + 2;
    Shape lifted = shape;
    lifted.insert(lifted.begin() + static_cast<int64_t>(axis) + 1, 1);
    weights = b.reshape(weights, lifted);
    std::vector<int64_t> none(lifted.size(), 0), after = none;
    after[axis + 1] = d - 1;
    weights = b.pad(weights, none, after, 0);
    Shape wide = shape;
    wide[axis] *= d;
    weights = b.reshape(weights, wide);
    wide[axis] = crops[i].effective_kernel();
    weights = b.slice(weights, std::vector<int64_t>(shape.size(), 0), wide);
  }
  return weights;
}

// One group. x is channels-last; weights are ONNX's [C, M, kernel...] with two or three axes.
Val transposed_conv(Lowering& lo, Val x, Val weights, Val bias, std::span<const Crop> crops, bool same) {
  Builder& b = lo.b;
  Shape size = {lo.b.dim(x, 0)};
  for (const Crop& crop : crops) size.push_back(same ? crop.out : valid_size(lo, crop));
  size.push_back(lo.b.dim(weights, 1));
  const Padding padding = same ? Padding::kSame : Padding::kValid;
  if (crops.size() == 3) {
    core::Conv3dOptions options{.padding = padding,
                                .stride_d = static_cast<int>(crops[0].stride),
                                .stride_h = static_cast<int>(crops[1].stride),
                                .stride_w = static_cast<int>(crops[2].stride),
                                .dilation_d = static_cast<int>(crops[0].dilation),
                                .dilation_h = static_cast<int>(crops[1].dilation),
                                .dilation_w = static_cast<int>(crops[2].dilation)};
    const Val kernel = b.transpose(weights, {2, 3, 4, 1, 0});
    return b.conv_3d_transpose(b.dims(size), kernel, x, bias, options);
  }
  core::TransposeConvOptions options{
      .padding = padding, .stride_h = static_cast<int>(crops[0].stride), .stride_w = static_cast<int>(crops[1].stride)};
  const Val kernel = b.transpose(dilated_weights(lo, weights, crops), {1, 2, 3, 0});
  return b.transpose_conv(b.dims(size), kernel, x, bias, options);
}

// Many narrow groups (depthwise upsampling, for example) as one: weights [C, M / group, ...] become [C, M, ...] with
// `zero` between the groups.
Val merge_groups(Lowering& lo, Val weights, int64_t group, int64_t zero) {
  Builder& b = lo.b;
  const Shape shape = lo.shape(weights);
  std::vector<Val> ws = b.split(weights, group, shape[0] / group, 0);
  for (int64_t i = 0; i < group; ++i) {
    std::vector<int64_t> before(shape.size(), 0), after = before;
    before[1] = i * shape[1];
    after[1] = (group - 1 - i) * shape[1];
    ws[static_cast<size_t>(i)] = b.pad(ws[static_cast<size_t>(i)], before, after, static_cast<double>(zero));
  }
  return b.concat(ws, 0);
}

// The same; integers behind the weights stay, with the scales of a group's channels for each group.
Val merged_groups(Lowering& lo, Val weights, int64_t group) {
  Builder& b = lo.b;
  const stream::RecipeRef floats = b.graph.at(weights.id).constant;
  const bool is_uniform = std::holds_alternative<stream::step::Fill>(floats->step);
  auto stored = is_uniform ? std::nullopt : core::integer_constant(floats, b.graph.budget);
  if (!stored || stream::bits(stored->integers->dtype) != 8 || !stored->all_zero_points_are(stored->zero[0]) ||
      !stored->all_zero_points_fit())
    return merge_groups(lo, weights, group, 0);
  const int64_t zero = stored->zero[0];
  const Val integers = merge_groups(lo, b.constant(stored->integers), group, zero);
  if (!b.is_constant(integers)) return merge_groups(lo, weights, group, 0);
  std::vector<float> scale = stored->scale;
  for (int64_t i = 1; stored->axis == 1 && i < group; ++i)
    scale.insert(scale.end(), stored->scale.begin(), stored->scale.end());
  const std::vector<int64_t> zeros(scale.size(), zero);
  return b.constant(stream::recipe::dequantize(b.graph.at(integers.id).constant, scale, zeros,
                                               scale.size() == 1 ? -1 : stored->axis));
}

// One op that multiplies by zeros is faster than dozens of ops, as long as its weights are small constants.
bool should_merge_groups(Lowering& lo, Val weights, int64_t group) {
  constexpr uint64_t kMostElements = 1 << 18;
  constexpr int64_t kFewGroups = 4;
  if (group <= kFewGroups || !lo.b.is_constant(weights)) return false;
  return stream::checked_mul(stream::element_count(lo.shape(weights)), static_cast<uint64_t>(group)) <= kMostElements;
}

Val grouped_transposed_conv(Lowering& lo, Val x, Val weights, Val bias, std::span<const Crop> crops, bool same,
                            int64_t group) {
  if (group == 1) return transposed_conv(lo, x, weights, bias, crops, same);
  if (should_merge_groups(lo, weights, group))
    return transposed_conv(lo, x, merged_groups(lo, weights, group), bias, crops, same);
  Builder& b = lo.b;
  const size_t parts = static_cast<size_t>(group);
  const Shape shape = lo.shape(weights);
  const int last = lo.rank(x) - 1;
  std::vector<Val> xs = b.split(x, group, shape[0] / group, last);
  std::vector<Val> ws = b.split(weights, group, shape[0] / group, 0);
  std::vector<Val> biases(parts);
  if (bias) biases = b.split(bias, group, shape[1], 0);
  for (size_t i = 0; i < parts; ++i) xs[i] = transposed_conv(lo, xs[i], ws[i], biases[i], crops, same);
  return b.concat(xs, last);
}

// Whether the output extends past the full result. There it is zero plus the bias, so the bias is added after the
// padding.
bool extends_past_full(Lowering& lo, std::span<const Crop> crops) {
  return std::any_of(crops.begin(), crops.end(), [&](const Crop& crop) {
    return difference(lo, lo.b.graph.symbols.add(crop.out, crop.before), valid_size(lo, crop)) > 0;
  });
}

Val cropped_output(Lowering& lo, Val y, std::span<const Crop> crops) {
  const size_t rank = static_cast<size_t>(lo.rank(y));
  std::vector<int64_t> begin(rank, 0), none(rank, 0), after(rank, 0);
  std::vector<Dim> size(rank, -1);
  bool slices = false, pads = false;
  for (size_t i = 0; i < crops.size(); ++i) {
    const int64_t beyond =
        difference(lo, lo.b.graph.symbols.add(crops[i].out, crops[i].before), valid_size(lo, crops[i]));
    begin[i + 1] = crops[i].before;
    if (beyond < 0) size[i + 1] = crops[i].out;
    slices |= crops[i].before > 0 || beyond < 0;
    after[i + 1] = std::max<int64_t>(0, beyond);
    pads |= beyond > 0;
  }
  if (slices) y = lo.b.slice(y, begin, size);
  if (pads) y = lo.b.pad(y, none, after, 0);
  return y;
}

void check_transposed_channels(Lowering& lo, Dim channels, const std::vector<int64_t>& weights, int64_t group) {
  if (group < 1) lo.malformed(fmt::format("attribute 'group' must be positive; it is {}", group));
  if (!core::is_symbol(channels) && channels != weights[0])
    lo.malformed(fmt::format("the input has {} channels, but the weights have {}", channels, weights[0]));
  if (weights[0] == 0)
    lo.unsupported("a convolution of an input without channels is not supported", "its result is the bias: use Expand");
  if (weights[0] % group != 0)
    lo.malformed(fmt::format("the number of channels {} must be a multiple of group {}", weights[0], group));
}

}  // namespace

void lower_conv_transpose(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.input(0), weights = lo.input(1);
  Val bias = lo.optional_input(2);
  const int spatial = lo.rank(x) - 2;
  if (spatial < 1) lo.malformed(fmt::format("the input must have rank 3 or more; it has rank {}", lo.rank(x)));
  if (lo.rank(weights) != lo.rank(x))
    lo.malformed(
        fmt::format("the weights must have the input's rank {}; they have rank {}", lo.rank(x), lo.rank(weights)));
  if (spatial > 3)
    lo.unsupported(
        fmt::format("a transposed convolution over {} axes is not supported: TFLite has 2-D and 3-D ones", spatial));
  const std::vector<int64_t> shape = lo.need_static(lo.shape(weights), "the shape of the weights");
  const int64_t group = lo.attr_count("group", 1);
  check_transposed_channels(lo, lo.b.dim(x, 1), shape, group);

  const std::vector<int64_t> kernel(shape.begin() + 2, shape.end());
  const Attributes attributes = read_attributes(lo, kernel);
  std::vector<Crop> crops;
  if (spatial == 1) crops.push_back({});
  for (size_t i = 0; i < kernel.size(); ++i)
    crops.push_back(read_crop(lo, attributes, i, kernel[i], lo.shape(x)[i + 2]));
  if (spatial == 1) weights = b.reshape(weights, {shape[0], shape[1], 1, shape[2]});

  x = to_image(lo, x);
  const bool same = std::all_of(crops.begin(), crops.end(), [&](const Crop& crop) { return fits_same(lo, crop); });
  const bool late_bias = bias && !same && extends_past_full(lo, crops);
  Val y = grouped_transposed_conv(lo, x, weights, late_bias ? Val{} : bias, crops, same, group);
  if (!same) y = cropped_output(lo, y, crops);
  if (late_bias) y = b.add(y, bias);
  lo.output(0, from_image(lo, y, spatial));
}

}  // namespace lowtide::layout
