// SPDX-License-Identifier: Apache-2.0
// DeformConv and RoiAlign: convolutions and pools whose positions come with the data. All positions are computed, the
// image is sampled at them (sampling.h), and what is left is a matrix product or a mean.
// Sources: ONNX's DeformConv (19, 22) and RoiAlign (10, 16, 22); ONNX Runtime's rules at the border.
#include <fmt/format.h>

#include <limits>

#include "layout/lower/extents.h"
#include "layout/lower/operands.h"
#include "layout/lower/sampling.h"

namespace lowtide::layout {
namespace {

// [N, C, H, W] as rows of channels, and for each image its first row as i32 [N, 1]; absent when there is one image.
struct Rows {
  Val image, first;
};
Rows as_rows(Lowering& lo, Val x, Dim area) {
  Builder& b = lo.b;
  const Shape shape = lo.shape(x);
  Rows rows;
  rows.image =
      reshape_to(lo, b.transpose(x, {0, 2, 3, 1}), std::vector<Dim>{b.graph.symbols.mul(shape[0], area), shape[1]});
  if (shape[0] != 1)
    rows.first = b.mul(add_ones(lo, counting(lo, shape[0], DType::kInt32), {1}), extent(lo, area, DType::kInt32));
  return rows;
}

// Where the taps of a plain convolution stand: [places * taps, 2], rows first. Each coordinate is the sum of a sequence
// over the places and one over the taps.
Val plain_positions(Lowering& lo, std::span<const int64_t> out, std::span<const int64_t> kernel,
                    std::span<const int64_t> stride, std::span<const int64_t> dilation, std::span<const int64_t> pads) {
  Builder& b = lo.b;
  const Shape box = {out[0], out[1], kernel[0], kernel[1]};
  const Dim count = b.graph.symbols.product(box);
  std::vector<Val> columns;
  for (size_t i = 0; i < 2; ++i) {
    Shape place(4, 1), tap(4, 1);
    place[i] = out[i];
    tap[i + 2] = kernel[i];
    Val at = b.add(b.reshape(b.constant(stream::recipe::iota(-pads[i], stride[i], DType::kInt32, out[i])), place),
                   b.reshape(b.constant(stream::recipe::iota(0, dilation[i], DType::kInt32, kernel[i])), tap));
    columns.push_back(b.reshape(b.broadcast_to(at, box), {count, 1}));
  }
  return b.cast(b.concat(columns, 1), DType::kFloat32);
}

// [N, offset groups * taps * per, H, W] as [N, places * taps, per] for one group.
Val of_group(Lowering& lo, Val x, int64_t group, int64_t taps, int64_t per, int64_t places) {
  Builder& b = lo.b;
  Val part = b.slice(x, std::vector<int64_t>{0, group * taps * per, 0, 0}, std::vector<Dim>{-1, taps * per, -1, -1});
  const Dim batch = lo.b.dim(x, 0);
  part = b.transpose(reshape_to(lo, part, std::vector<Dim>{batch, taps, per, places}), {0, 3, 1, 2});
  return reshape_to(lo, part, std::vector<Dim>{batch, places * taps, per});
}

// One group of the product: values [N, places, taps, C], weights ONNX's [M, C, h, w].
Val contracted(Lowering& lo, Val values, Val weights, Val bias) {
  Builder& b = lo.b;
  const Shape shape = lo.shape(values), w = lo.shape(weights);
  weights = b.reshape(b.transpose(weights, {0, 2, 3, 1}), {w[0], w[1] * w[2] * w[3]});
  values = reshape_to(lo, values, std::vector<Dim>{shape[0], shape[1], w[1] * w[2] * w[3]});
  return b.fully_connected(values, weights, bias, true);
}

}  // namespace

void lower_deform_conv(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.input(0), weights = lo.input(1), offset = lo.input(2);
  if (lo.rank(x) != 4 || lo.rank(weights) != 4 || lo.rank(offset) != 4)
    lo.unsupported("a deformable convolution over other than two axes");
  const Shape shape = lo.shape(x);
  const std::vector<int64_t> w = lo.need_static(lo.shape(weights), "the shape of the weights");
  const std::vector<int64_t> sizes = {lo.need_static(shape[2], "the height"), lo.need_static(shape[3], "the width")};
  const std::vector<int64_t> kernel = {w[2], w[3]};
  if (auto given = lo.attr_ints("kernel_shape"); given && *given != kernel)
    lo.malformed("kernel_shape is not the shape of the weights");
  const std::vector<int64_t> stride = attr_numbers(lo, "strides", 2, 1, 1),
                             dilation = attr_numbers(lo, "dilations", 2, 1, 1);
  const std::vector<int64_t> pads = attr_numbers(lo, "pads", 4, 0, 0);
  for (int64_t extent : {kernel[0], kernel[1], sizes[0], sizes[1]})
    if (extent < 1 || extent > std::numeric_limits<int32_t>::max())
      lo.unsupported(fmt::format("an axis of {}", extent));
  const int64_t group = lo.attr_i("group", 1), offset_group = lo.attr_i("offset_group", 1);
  const int64_t channels = lo.need_static(shape[1], "the number of channels");
  if (group < 1 || offset_group < 1 || channels % offset_group != 0 || channels % group != 0 ||
      channels / group != w[1] || w[0] % group != 0)
    lo.malformed(fmt::format("{} channels, {} groups, {} offset groups and weights {} do not fit", channels, group,
                             offset_group, stream::to_string(lo.shape(weights))));
  std::vector<int64_t> out;
  for (size_t i = 0; i < 2; ++i) {
    out.push_back((sizes[i] + pads[i] + pads[i + 2] - ((kernel[i] - 1) * dilation[i] + 1)) / stride[i] + 1);
    if (out[i] < 1 || (stream::is_static(lo.shape(offset)[i + 2]) && lo.shape(offset)[i + 2] != out[i]))
      lo.malformed(
          fmt::format("offsets of {} do not fit an output of {}", stream::to_string(lo.shape(offset)), out[i]));
  }
  const int64_t taps = kernel[0] * kernel[1], places = out[0] * out[1];
  Val plain = plain_positions(lo, out, kernel, stride, dilation, pads);

  std::vector<Val> images =
      offset_group == 1
          ? std::vector<Val>{x}
          : b.split(x, std::vector<int64_t>(static_cast<size_t>(offset_group), channels / offset_group), 1);
  std::vector<Val> parts;
  for (int64_t i = 0; i < offset_group; ++i) {
    const Rows rows = as_rows(lo, images[static_cast<size_t>(i)], sizes[0] * sizes[1]);
    Val at = b.add(b.cast(of_group(lo, offset, i, taps, 2, places), DType::kFloat32), plain);
    Val values = sampled(lo, rows.image, rows.first, at,
                         {.mode = Sampling::kLinear, .outside = Outside::kZeros, .sizes = sizes});
    if (lo.has_input(4)) values = b.mul(values, of_group(lo, lo.input(4), i, taps, 1, places));
    parts.push_back(reshape_to(lo, values, std::vector<Dim>{shape[0], places, taps, channels / offset_group}));
  }
  Val values = parts.size() == 1 ? parts[0] : b.concat(parts, 3);
  const Val bias = lo.optional_input(3);
  Val y;
  if (group == 1) {
    y = contracted(lo, values, weights, bias);
  } else {
    const size_t count = static_cast<size_t>(group);
    std::vector<Val> vs = b.split(values, std::vector<int64_t>(count, w[1]), 3);
    std::vector<Val> ws = b.split(weights, std::vector<int64_t>(count, w[0] / group), 0), biases(count);
    if (bias) biases = b.split(bias, std::vector<int64_t>(count, w[0] / group), 0);
    for (size_t i = 0; i < count; ++i) vs[i] = contracted(lo, vs[i], ws[i], biases[i]);
    y = b.concat(vs, 2);
  }
  y = reshape_to(lo, y, std::vector<Dim>{shape[0], out[0], out[1], w[0]});
  lo.output(0, b.transpose(y, {0, 3, 1, 2}));
}

namespace {

// Along one axis: the samples' positions [rois, bins * samples].
struct RoiAxis {
  Val at;
  Val valid;      // 1 where they lie on the image, else 0
  Val samples;    // of each region's bins, f32 [rois, 1]; absent: the same number for all
  Val exists;     // 1 for the samples that the region has, else 0; absent with `samples`
  Dim most, all;  // samples of a bin, and of all bins
};

// The same number of samples for every region.
void place_evenly(Lowering& lo, RoiAxis& axis, Val bin, Val start, int64_t bins, int64_t samples) {
  std::vector<float> steps;  // in bins
  for (int64_t which = 0; which < bins; ++which)
    for (int64_t i = 0; i < samples; ++i)
      steps.push_back(static_cast<float>(which) + (static_cast<float>(i) + 0.5f) / static_cast<float>(samples));
  Val step = lo.b.constant(stream::recipe::floats(steps, {1, bins * samples}));
  axis.at = lo.b.add(lo.b.mul(bin, step), start);
  axis.most = samples;
}

// As many samples as a bin has elements, rounded up: the run lays out as many as the largest region needs.
void place_by_size(Lowering& lo, RoiAxis& axis, Val bin, Val start, int64_t bins) {
  Builder& b = lo.b;
  const Dim regions = b.dim(bin, 0);
  axis.samples = b.maximum(b.ceil(bin), b.scalar_like(0, bin));
  Val at_least_one = b.maximum(axis.samples, b.scalar_like(1, bin));
  Val most = b.cast(b.reduce_max(at_least_one, std::vector<int>{0, 1}, false), DType::kInt32);
  most = b.maximum(most, b.i32_scalar(1));  // there may be no regions
  Val sample = b.cast(b.range(b.i32_scalar(0), most, b.i32_scalar(1)), DType::kFloat32);
  axis.most = b.dim(sample, 0);
  const std::vector<Dim> flat = {regions, b.graph.symbols.mul(bins, axis.most)};
  Val part = add_ones(lo, b.div(b.add(sample, 0.5), at_least_one), {1});  // [rois, 1, samples], in bins
  Val number = b.reshape(b.cast(counting(lo, bins, DType::kInt32), DType::kFloat32), {1, bins, 1});
  Val at = b.add(b.mul(b.add(part, number), add_ones(lo, bin, {2})), add_ones(lo, start, {2}));
  axis.at = reshape_to(lo, at, flat);
  Val exists = b.cast(b.less(sample, axis.samples), DType::kFloat32);
  exists = b.add(add_ones(lo, exists, {1}), b.filled(0, DType::kFloat32, {1, bins, 1}));
  axis.exists = reshape_to(lo, exists, flat);
}

RoiAxis roi_axis(Lowering& lo, Val start, Val end, int64_t bins, int64_t samples, Dim size, float scale,
                 bool half_pixel) {
  Builder& b = lo.b;
  start = b.mul(start, scale);
  end = b.mul(end, scale);
  Val length = b.sub(end, start);
  if (half_pixel)
    start = b.add(start, -0.5);
  else
    length = b.maximum(length, b.scalar_like(1, length));
  Val bin = b.div(length, static_cast<double>(bins));
  RoiAxis axis;
  if (samples > 0)
    place_evenly(lo, axis, bin, start, bins, samples);
  else
    place_by_size(lo, axis, bin, start, bins);
  axis.all = b.graph.symbols.mul(bins, axis.most);
  Val beyond = extent(lo, size, DType::kFloat32);
  Val valid = b.logical_and(b.greater_equal(axis.at, b.scalar_like(-1, axis.at)), b.less_equal(axis.at, beyond));
  axis.at = b.minimum(b.maximum(axis.at, b.scalar_like(0, axis.at)), b.sub(beyond, 1));
  axis.valid = b.cast(valid, DType::kFloat32);
  return axis;
}

// [rois, rows] or [rois, columns] as [rois, rows, columns, 1], repeated along the other's axis.
Val repeated(Lowering& lo, Val along, bool rows, Dim other) {
  Builder& b = lo.b;
  Val lifted = add_ones(lo, along, {rows ? 2 : 1, 3});
  if (stream::is_static(other))
    return b.add(lifted, b.filled(0, DType::kFloat32, rows ? Shape{1, 1, other, 1} : Shape{1, other, 1, 1}));
  std::vector<Dim> whole = lo.shape(lifted);
  whole[rows ? 2 : 1] = other;
  return b.broadcast_to(lifted, whole);
}

// [rois, rows] times [rois, columns] as [rois, rows * columns, 1].
Val crossed(Lowering& lo, Val rows, Val columns, Dim regions, Dim count) {
  Val product = lo.b.mul(add_ones(lo, rows, {2}), add_ones(lo, columns, {1}));
  return reshape_to(lo, product, std::vector<Dim>{regions, count, 1});
}

}  // namespace

void lower_roi_align(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.input(0), rois = lo.input(1), batch = lo.input(2);
  if (lo.rank(x) != 4 || lo.rank(rois) != 2 || lo.rank(batch) != 1)
    lo.malformed("the inputs must have ranks 4, 2 and 1");
  const int64_t height = lo.attr_i("output_height", 1), width = lo.attr_i("output_width", 1);
  const int64_t samples = lo.attr_i("sampling_ratio", 0);
  const float scale = lo.attr_f("spatial_scale", 1);
  const std::string mode = lo.attr_s("mode", "avg");
  // Version 10 has no such attribute and does not shift.
  const std::string transform =
      lo.opset() < 16 ? "output_half_pixel" : lo.attr_s("coordinate_transformation_mode", "half_pixel");
  if (mode != "avg" && mode != "max") lo.malformed(fmt::format("mode '{}' is unknown", mode));
  if (transform != "half_pixel" && transform != "output_half_pixel")
    lo.malformed(fmt::format("coordinate_transformation_mode '{}' is unknown", transform));
  if (height < 1 || width < 1 || height > 4096 || width > 4096)
    lo.malformed("output_height and output_width must be positive");
  if (samples < 0 || samples > 256) lo.unsupported(fmt::format("a sampling_ratio of {}", samples));
  const Shape shape = lo.shape(x);
  const std::vector<Dim> sizes = {shape[2], shape[3]};
  const Dim area = b.graph.symbols.mul(shape[2], shape[3]);

  std::vector<Val> corners =
      b.split(b.cast(rois, DType::kFloat32), std::vector<int64_t>{1, 1, 1, 1}, 1);  // x1 y1 x2 y2
  const bool half_pixel = transform == "half_pixel";
  const RoiAxis y = roi_axis(lo, corners[1], corners[3], height, samples, sizes[0], scale, half_pixel);
  const RoiAxis w = roi_axis(lo, corners[0], corners[2], width, samples, sizes[1], scale, half_pixel);
  const Dim count = lo.b.dim(rois, 0);
  const Dim positions = b.graph.symbols.mul(y.all, w.all);
  Val at = b.concat({repeated(lo, y.at, true, w.all), repeated(lo, w.at, false, y.all)}, 3);
  at = reshape_to(lo, at, std::vector<Dim>{count, positions, 2});

  const Rows rows = as_rows(lo, x, area);
  Val first = b.mul(add_ones(lo, b.cast(batch, DType::kInt32), {1}), extent(lo, area, DType::kInt32));
  const bool largest = mode == "max";
  Val values = sampled(lo, rows.image, first, at,
                       {.mode = Sampling::kLinear, .outside = Outside::kBorder, .largest = largest, .sizes = sizes});
  values = b.mul(values, b.cast(crossed(lo, y.valid, w.valid, count, positions), lo.dtype(values)));
  Val zero = b.scalar_like(0, values);
  if (y.exists) {
    Val exists = b.greater(crossed(lo, y.exists, w.exists, count, positions), b.scalar(0, DType::kFloat32));
    values = b.select(exists, values, largest ? b.scalar_like(std::numeric_limits<float>::lowest(), values) : zero);
  }
  values = reshape_to(lo, values, std::vector<Dim>{count, height, y.most, width, w.most, shape[1]});
  const Kind fold = largest ? Kind::kReduceMax : y.samples ? Kind::kSum : Kind::kMean;
  values = b.reduce(fold, values, std::vector<int>{2, 4}, false);
  if (y.samples) {
    // A region turned inside out has no samples, and is 0.
    Val number = add_ones(lo, b.cast(b.mul(y.samples, w.samples), lo.dtype(values)), {2, 3});  // [rois, 1, 1, 1]
    if (largest)
      values = b.select(b.greater(number, zero), values, zero);
    else
      values = b.div(values, b.maximum(number, b.scalar_like(1, values)));
  }
  lo.output(0, b.transpose(values, {0, 3, 1, 2}));
}

}  // namespace lowtide::layout
