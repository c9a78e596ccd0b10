// SPDX-License-Identifier: Apache-2.0
// NonMaxSuppression.
//
// Differences: ONNX processes all batches and classes, NON_MAX_SUPPRESSION_V4 one. ONNX suppresses overlaps above the
// threshold, the kernel those equal to it too. Among equal scores ONNX Runtime takes the first box, the kernel any: so
// the boxes are sorted here and get distinct scores by rank. The kernel selects a box without area repeatedly, because
// it does not overlap itself: such boxes, which overlap nothing in ONNX, are moved to separate positions.
#include <array>
#include <limits>
#include <string>

#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

// What all classes share.
struct Suppression {
  Dim count;      // boxes
  Val at_most;    // i32 scalar
  Val threshold;  // f32 scalar: overlaps from here on are suppressed
  Val lowest;     // f32 scalar or absent: scores must exceed it
};

// Column `at` of [N, 4].
Val column(Lowering& lo, Val boxes, int64_t at) {
  const int64_t begin[] = {0, at};
  const Dim size[] = {-1, 1};
  return lo.b.slice(boxes, begin, size);
}

// [N, 4] as y1, x1, y2, x2; boxes without area are moved to separate positions.
Val corner_boxes(Lowering& lo, Val boxes, bool by_center, Dim count) {
  Builder& b = lo.b;
  Val height, width;
  if (by_center) {  // x, y, width, height
    Val x = column(lo, boxes, 0), y = column(lo, boxes, 1);
    width = column(lo, boxes, 2);
    height = column(lo, boxes, 3);
    Val right = b.mul(width, 0.5), down = b.mul(height, 0.5);
    boxes = b.concat({b.sub(y, down), b.sub(x, right), b.add(y, down), b.add(x, right)}, 1);
  } else {
    const Val top = column(lo, boxes, 0);
    height = b.abs(b.sub(column(lo, boxes, 2), top));
    const Val left = column(lo, boxes, 1);
    width = b.abs(b.sub(column(lo, boxes, 3), left));
  }
  Val zero = b.scalar(0, DType::kFloat32);
  const Val no_area = b.less_equal(b.mul(height, width), zero);
  Val empty = b.logical_or(b.less_equal(b.minimum(height, width), zero), no_area);
  // Box i is moved to rows (4 + 4i) .. (6 + 4i) and columns 0 .. 1, in units of the largest coordinate.
  const std::array<float, 4> step{4, 0, 4, 0}, first{4, 0, 6, 1};
  const int both[] = {0, 1}, last[] = {1};
  Val unit = b.maximum(b.reduce_max(b.abs(boxes), both, false), b.scalar(1, DType::kFloat32));
  Val number = b.unsqueeze(b.cast(iota(lo, count, DType::kInt32), DType::kFloat32), last);
  Val places = b.add(b.mul(number, b.constant(stream::recipe::floats(step, {4}))),
                     b.constant(stream::recipe::floats(first, {4})));
  return b.select(empty, b.mul(places, unit), boxes);
}

// Indices of the selected boxes of one class, best first: i32, of a length known at run time only.
Val selected(Lowering& lo, const Suppression& how, Val boxes, Val scores) {
  Builder& b = lo.b;
  std::vector<Val> sorted = b.top_k(scores, dim_as_scalar(lo, how.count, DType::kInt32));
  const Val place = b.cast(iota(lo, how.count, DType::kInt32), DType::kFloat32);
  Val rank = b.sub(dim_as_scalar(lo, how.count, DType::kFloat32), place);
  if (how.lowest) rank = b.select(b.greater(sorted[0], how.lowest), rank, b.scalar(-1, DType::kFloat32));
  const Val inputs[] = {b.gather(boxes, sorted[1], 0), rank, how.at_most, how.threshold, b.scalar(0, DType::kFloat32)};
  std::vector<Val> kept = b.ops(Kind::kNonMaxSuppressionV4, inputs, {}, 2);
  Val used = b.op(Kind::kSlice, {kept[0], b.i32({0}), b.reshape(kept[1], {1})});
  return b.gather(sorted[1], used, 0);
}

// The kernel's threshold: the next float above ONNX's, but at most 1, because a box must suppress itself.
Val overlap_threshold(Lowering& lo) {
  Builder& b = lo.b;
  Val given = lo.has_input(3) ? as_scalar(lo, lo.input(3)) : b.scalar(0, DType::kFloat32);
  if (auto known = lo.numbers(given); known && !((*known)[0] >= 0 && (*known)[0] < 1))
    lo.unsupported("iou_threshold must be in [0, 1); it is " + std::to_string((*known)[0]),
                   "a threshold of 1 suppresses nothing: use TopK");
  Val above = b.add(given, b.mul(given, 0.75 * std::numeric_limits<float>::epsilon()));
  above = b.maximum(above, b.scalar(std::numeric_limits<float>::min(), DType::kFloat32));
  return b.minimum(above, b.scalar(1, DType::kFloat32));
}

}  // namespace

void lower_non_max_suppression(Lowering& lo) {
  Builder& b = lo.b;
  Val boxes = lo.input(0), scores = lo.input(1);
  const bool by_center = lo.attr_i("center_point_box", 0) != 0;
  if (lo.rank(boxes) != 3 || lo.rank(scores) != 3 || b.dim(boxes, 2) != 4)
    lo.misfit("boxes must have shape [batch, N, 4] and scores [batch, classes, N]; the shapes are " +
              stream::to_string(lo.shape(boxes)) + " and " + stream::to_string(lo.shape(scores)));
  const int64_t batches = lo.need_static(b.dim(scores, 0), "the number of batches");
  const int64_t classes = lo.need_static(b.dim(scores, 1), "the number of classes");
  Suppression how{b.dim(boxes, 1), {}, {}, {}};
  how.at_most = lo.has_input(2) ? as_scalar(lo, lo.input(2)) : b.scalar(0, DType::kInt64);
  how.at_most = b.maximum(how.at_most, b.scalar_like(0, how.at_most));  // as ONNX Runtime; the kernel refuses
  how.at_most = b.cast(b.minimum(how.at_most, dim_as_scalar(lo, how.count, lo.dtype(how.at_most))), DType::kInt32);
  how.threshold = overlap_threshold(lo);
  if (lo.has_input(4)) how.lowest = as_scalar(lo, lo.input(4));
  if (how.count == 0 || batches == 0 || classes == 0) {
    lo.output(0, b.filled(0, DType::kInt64, {0, 3}));
    return;
  }
  std::vector<Val> rows;
  for (int64_t batch = 0; batch < batches; ++batch) {
    const int64_t box_begin[] = {batch, 0, 0};
    const Dim box_size[] = {1, -1, -1}, table[] = {how.count, 4}, list[] = {how.count};
    Val own = corner_boxes(lo, b.reshape(b.slice(boxes, box_begin, box_size), table), by_center, how.count);
    for (int64_t label = 0; label < classes; ++label) {
      const int64_t score_begin[] = {batch, label, 0};
      const Dim score_size[] = {1, 1, -1};
      Val kept = selected(lo, how, own, b.reshape(b.slice(scores, score_begin, score_size), list));
      const int last[] = {1};
      rows.push_back(b.add(b.mul(b.unsqueeze(kept, last), b.i32({0, 0, 1})), b.i32({batch, label, 0})));
    }
  }
  lo.output(0, b.cast(b.concat(rows, 0), DType::kInt64));
}

}  // namespace lowtide::layout
