// SPDX-License-Identifier: Apache-2.0
// RoiAlign: a pool whose positions are computed from an input. The image is sampled at all positions
// (image_sampling.h), and the samples of each bin are reduced. Sources: ONNX's RoiAlign (10, 16, 22); ONNX Runtime's
// rules at the border.
#include <fmt/format.h>

#include <limits>

#include "layout/lower/image_sampling.h"
#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

// Along one axis: the samples' positions [rois, bins * samples].
struct RoiAxis {
  Val at;
  Val valid;      // 1 where they are inside the image, else 0
  Val samples;    // number in each region's bins, f32 [rois, 1]; absent: the same for all
  Val exists;     // 1 for samples of the region, 0 for those only larger regions have; absent when `samples` is
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

// As many samples as a bin has elements, rounded up. All regions get as many as the largest needs, and the rest is
// masked.
void place_by_size(Lowering& lo, RoiAxis& axis, Val bin, Val start, int64_t bins) {
  Builder& b = lo.b;
  const Dim regions = b.dim(bin, 0);
  axis.samples = b.maximum(b.ceil(bin), b.scalar_like(0, bin));
  Val at_least_one = b.maximum(axis.samples, b.scalar_like(1, bin));
  Val most = b.cast(b.reduce_max(at_least_one, std::vector<int>{0, 1}, false), DType::kInt32);
  most = b.maximum(most, b.i32_scalar(1));  // there may be no regions
  const Val step = b.i32_scalar(1);
  Val sample = b.cast(b.range(b.i32_scalar(0), most, step), DType::kFloat32);
  axis.most = b.dim(sample, 0);
  const std::vector<Dim> flat = {regions, b.graph.symbols.mul(bins, axis.most)};
  Val part = unsqueeze_axes(lo, b.div(b.add(sample, 0.5), at_least_one), {1});  // [rois, 1, samples], in bins
  Val number = b.reshape(b.cast(iota(lo, bins, DType::kInt32), DType::kFloat32), {1, bins, 1});
  start = unsqueeze_axes(lo, start, {2});
  bin = unsqueeze_axes(lo, bin, {2});
  Val at = b.add(b.mul(b.add(part, number), bin), start);
  axis.at = reshape_to(lo, at, flat);
  Val exists = b.cast(b.less(sample, axis.samples), DType::kFloat32);
  exists = b.add(unsqueeze_axes(lo, exists, {1}), b.filled(0, DType::kFloat32, {1, bins, 1}));
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
  Val beyond = dim_as_scalar(lo, size, DType::kFloat32);
  const Val not_beyond = b.less_equal(axis.at, beyond);
  Val valid = b.logical_and(b.greater_equal(axis.at, b.scalar_like(-1, axis.at)), not_beyond);
  const Val last = b.sub(beyond, 1);
  axis.at = b.minimum(b.maximum(axis.at, b.scalar_like(0, axis.at)), last);
  axis.valid = b.cast(valid, DType::kFloat32);
  return axis;
}

// [rois, rows] or [rois, columns] as [rois, 1, rows, columns], repeated along the other's axis.
Val repeated(Lowering& lo, Val along, bool rows, Dim other) {
  Builder& b = lo.b;
  Val lifted = unsqueeze_axes(lo, along, {1, rows ? 3 : 2});
  if (stream::is_static(other))
    return b.add(lifted, b.filled(0, DType::kFloat32, rows ? Shape{1, 1, 1, other} : Shape{1, 1, other, 1}));
  std::vector<Dim> whole = lo.shape(lifted);
  whole[rows ? 3 : 2] = other;
  return b.broadcast_to(lifted, whole);
}

// [rois, rows] times [rois, columns] as [rois, rows * columns, 1].
Val crossed_samples(Lowering& lo, Val rows, Val columns, Dim regions, Dim count) {
  columns = unsqueeze_axes(lo, columns, {1});
  Val product = lo.b.mul(unsqueeze_axes(lo, rows, {2}), columns);
  return reshape_to(lo, product, std::vector<Dim>{regions, count, 1});
}

}  // namespace

void lower_roi_align(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.input(0), rois = lo.input(1), batch = lo.input(2);
  if (lo.rank(x) != 4 || lo.rank(rois) != 2 || lo.rank(batch) != 1)
    lo.malformed(fmt::format("X, rois and batch_indices must have ranks 4, 2 and 1; they have {}, {} and {}",
                             lo.rank(x), lo.rank(rois), lo.rank(batch)));
  const int64_t height = lo.attr_i("output_height", 1), width = lo.attr_i("output_width", 1);
  const int64_t samples = lo.attr_i("sampling_ratio", 0);
  const float scale = lo.attr_f("spatial_scale", 1);
  const std::string mode = lo.attr_s("mode", "avg");
  // Version 10 has no such attribute and no half-pixel shift.
  const std::string transform =
      lo.opset() < 16 ? "output_half_pixel" : lo.attr_s("coordinate_transformation_mode", "half_pixel");
  if (mode != "avg" && mode != "max") lo.malformed(fmt::format("attribute 'mode' has the unknown value '{}'", mode));
  if (transform != "half_pixel" && transform != "output_half_pixel")
    lo.malformed(fmt::format("attribute 'coordinate_transformation_mode' has the unknown value '{}'", transform));
  if (height < 1 || width < 1 || height > 4096 || width > 4096)
    lo.malformed(
        fmt::format("output_height and output_width must be from 1 to 4096; they are {} and {}", height, width));
  if (samples < 0 || samples > 256)
    lo.unsupported(fmt::format("sampling_ratio {} is not supported: it must be from 0 to 256", samples));
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
  Val at = b.concat({repeated(lo, y.at, true, w.all), repeated(lo, w.at, false, y.all)}, 1);
  at = reshape_to(lo, at, std::vector<Dim>{count, 2, positions});

  const ImageRows rows = as_rows(lo, x, area);
  const Val rows_of_image = dim_as_scalar(lo, area, DType::kInt32);
  Val first = b.mul(unsqueeze_axes(lo, b.cast(batch, DType::kInt32), {1}), rows_of_image);
  const bool largest = mode == "max";
  Val values = sampled(lo, rows.image, first, at,
                       {.mode = Sampling::kLinear, .outside = Outside::kBorder, .largest = largest, .sizes = sizes});
  values = b.mul(values, b.cast(crossed_samples(lo, y.valid, w.valid, count, positions), lo.dtype(values)));
  Val zero = b.scalar_like(0, values);
  if (y.exists) {
    Val exists = b.greater(crossed_samples(lo, y.exists, w.exists, count, positions), b.scalar(0, DType::kFloat32));
    values = b.select(exists, values, largest ? b.scalar_like(std::numeric_limits<float>::lowest(), values) : zero);
  }
  values = reshape_to(lo, values, std::vector<Dim>{count, height, y.most, width, w.most, shape[1]});
  const Kind fold = largest ? Kind::kReduceMax : y.samples ? Kind::kSum : Kind::kMean;
  values = b.reduce(fold, values, std::vector<int>{2, 4}, false);
  if (y.samples) {
    // A region of negative size has no samples, and its result is 0.
    Val number = unsqueeze_axes(lo, b.cast(b.mul(y.samples, w.samples), lo.dtype(values)), {2, 3});  // [rois, 1, 1, 1]
    if (largest)
      values = b.select(b.greater(number, zero), values, zero);
    else
      values = b.div(values, b.maximum(number, b.scalar_like(1, values)));
  }
  lo.output(0, b.transpose(values, {0, 3, 1, 2}));
}

}  // namespace lowtide::layout
