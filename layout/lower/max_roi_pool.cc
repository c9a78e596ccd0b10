// SPDX-License-Identifier: Apache-2.0
// MaxRoiPool: the largest element of each bin of each region; the regions are an input.
//
// Bins consist of whole elements, may overlap by rounding, and differ between regions: so each axis in turn is masked
// and reduced. Corners are rounded half away from zero (ROUND rounds half to even); the second corner belongs to the
// region; a bin outside the image is 0.
#include <fmt/format.h>

#include <limits>

#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

Val rounded_away(Builder& b, Val x) {
  const Val magnitude = b.floor(b.add(b.abs(x), 0.5));
  return b.mul(b.sign(x), magnitude);
}

// Along one axis: which elements belong to which bin, bool [regions, bins, size].
Val members(Lowering& lo, Val first, Val last, int64_t bins, Dim size) {
  Builder& b = lo.b;
  Val length = b.maximum(b.add(b.sub(last, first), 1), b.scalar_like(1, first));  // [regions, 1]
  Val bin = b.div(length, b.scalar_like(static_cast<double>(bins), length));
  const DType dtype = b.dtype(first);
  Val number = b.cast(iota(lo, bins, DType::kInt32), dtype);
  Val begin = b.add(b.floor(b.mul(bin, number)), first);  // [regions, bins]
  Val end = b.add(b.ceil(b.mul(bin, b.add(number, 1))), first);
  Val place = b.cast(iota(lo, size, DType::kInt32), dtype);
  const Val before_end = b.less(place, unsqueeze_axes(lo, end, {2}));
  return b.logical_and(b.greater_equal(place, unsqueeze_axes(lo, begin, {2})), before_end);
}

}  // namespace

void lower_max_roi_pool(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.input(0), rois = lo.input(1);
  if (lo.rank(x) != 4 || lo.rank(rois) != 2 || b.dim(rois, 1) != 5)
    lo.misfit(fmt::format("X must have rank 4 and rois shape [regions, 5]; the shapes are {} and {}",
                          stream::to_string(lo.shape(x)), stream::to_string(lo.shape(rois))));
  const std::vector<int64_t> pooled = lo.attr_ints("pooled_shape").value_or(std::vector<int64_t>());
  if (pooled.size() != 2)
    lo.malformed(fmt::format("attribute 'pooled_shape' must have 2 elements; it has {}", pooled.size()));
  for (int64_t bins : pooled)
    if (bins < 1 || bins > 4096)
      lo.malformed(fmt::format("attribute 'pooled_shape' must be from 1 to 4096; it contains {}", bins));
  const float scale = lo.attr_f("spatial_scale", 1);
  const Shape shape = lo.shape(x);
  const Dim count = b.dim(rois, 0);

  std::vector<Val> columns = b.split(rois, std::vector<int64_t>{1, 1, 1, 1, 1}, 1);  // image, x1, y1, x2, y2
  for (size_t i = 1; i < columns.size(); ++i) columns[i] = rounded_away(b, b.mul(columns[i], scale));
  Val rows = members(lo, columns[2], columns[4], pooled[0], shape[2]);
  Val across = members(lo, columns[1], columns[3], pooled[1], shape[3]);

  Val lowest = b.scalar_like(std::numeric_limits<float>::lowest(), x);
  Val y = b.transpose(x, {0, 2, 3, 1});
  if (shape[0] != 1)
    y = b.gather(y, b.cast(squeeze_axes(lo, columns[0], {1}), DType::kInt32), 0);  // [regions, H, W, C]
  y = unsqueeze_axes(lo, y, {1});
  y = b.select(unsqueeze_axes(lo, rows, {3, 4}), y, lowest);
  y = b.reduce_max(y, std::vector<int>{2}, false);  // [regions, bins, W, C]
  y = unsqueeze_axes(lo, y, {2});
  y = b.select(unsqueeze_axes(lo, across, {1, 4}), y, lowest);
  y = b.reduce_max(y, std::vector<int>{3}, false);  // [regions, bins, bins, C]
  const Val filled_across = unsqueeze_axes(lo, b.reduce_any(across, std::vector<int>{2}, false), {1});
  Val filled = b.logical_and(unsqueeze_axes(lo, b.reduce_any(rows, std::vector<int>{2}, false), {2}), filled_across);
  y = b.select(unsqueeze_axes(lo, filled, {3}), y, b.scalar_like(0, y));
  lo.output(0, b.transpose(reshape_to(lo, y, std::vector<Dim>{count, pooled[0], pooled[1], shape[1]}), {0, 3, 1, 2}));
}

}  // namespace lowtide::layout
