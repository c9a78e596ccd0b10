// SPDX-License-Identifier: Apache-2.0
// NonMaxSuppression.
//
// Differences: ONNX processes all batches and classes, NON_MAX_SUPPRESSION_V4 one. ONNX suppresses overlaps above the
// threshold, the kernel those equal to it too. Among equal scores ONNX Runtime takes the first box, the kernel any: so
// the boxes are sorted here and get distinct scores by rank. The kernel selects a box without area repeatedly, because
// it does not overlap itself: such boxes, which overlap nothing in ONNX, are moved to separate positions.
//
// The lists of all batches and classes are sorted together, and what the kernel selects of them is read together. Two
// operators remain for each: the kernel, and a GATHER of its boxes. One GATHER and UNPACK of the boxes of all lists
// would take 20 MB more for 80 classes of 8,400 boxes, and 1.03 of the time.
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

// The boxes of each list, which are those of one batch and one class, by score.
struct Sorted {
  std::vector<Val> boxes;  // i32 [N]: indices, best first
  std::vector<Val> ranks;  // f32 [N]: distinct scores, below 0 where the score is too low
  Val all;                 // i32 [lists, N], or [N] of a single list: all indices
};

Sorted sorted_by_score(Lowering& lo, const Suppression& how, Val scores, int64_t lists) {
  Builder& b = lo.b;
  const Dim one[] = {how.count}, many[] = {lists, how.count};
  const bool is_one = lists == 1;
  const auto parts = [&](Val v) { return is_one ? std::vector<Val>{v} : b.unpack(v, 0); };
  scores = is_one ? b.reshape(scores, one) : b.reshape(scores, many);
  const std::vector<Val> sorted = b.top_k(scores, dim_as_scalar(lo, how.count, DType::kInt32));
  const Val place = b.cast(iota(lo, how.count, DType::kInt32), DType::kFloat32);
  const Val rank = b.sub(dim_as_scalar(lo, how.count, DType::kFloat32), place);
  Sorted out{parts(sorted[1]), std::vector<Val>(static_cast<size_t>(lists), rank), sorted[1]};
  if (how.lowest) out.ranks = parts(b.select(b.greater(sorted[0], how.lowest), rank, b.scalar(-1, DType::kFloat32)));
  return out;
}

// What the kernel selects of each list: indices into the list, best first and zeros behind them, and how many.
struct Selected {
  std::vector<Val> places, counts;  // i32 [at_most]; i32 scalars
};

// A row (batch, class, box) for each box of a single list. i32.
Val rows_of_one(Lowering& lo, Val sorted, Val places, Val count) {
  Builder& b = lo.b;
  const int last[] = {1};
  Val used = b.op(Kind::kSlice, {places, b.i32({0}), b.reshape(count, {1})});
  return b.mul(b.unsqueeze(b.gather(sorted, used, 0), last), b.i32({0, 0, 1}));
}

// The same of all lists: WHERE gives batch, class and place of what is used, in the order that ONNX wants. i64.
Val rows_of_many(Lowering& lo, const Suppression& how, const Sorted& sorted, const Selected& kept, Dim batches,
                 Dim classes) {
  Builder& b = lo.b;
  const Val places = b.pack(kept.places, 0), counts = b.reshape(b.pack(kept.counts, 0), {batches, classes, 1});
  const Val place = b.range(b.scalar(0, DType::kInt32), how.at_most, b.scalar(1, DType::kInt32));
  const Val used = b.where(b.less(place, counts));
  const Val chosen = b.gather(sorted.all, places, 1, 1);
  const Val boxes = b.gather_nd(b.reshape(chosen, {batches, classes, b.dim(chosen, 1), 1}), used);
  const int64_t begin[] = {0, 0};
  const Dim size[] = {-1, 2};
  return b.concat({b.slice(used, begin, size), b.cast(boxes, DType::kInt64)}, 1);
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
  const Sorted sorted = sorted_by_score(lo, how, scores, batches * classes);
  Selected kept;
  for (int64_t batch = 0; batch < batches; ++batch) {
    const int64_t begin[] = {batch, 0, 0};
    const Dim size[] = {1, -1, -1}, table[] = {how.count, 4};
    Val own = corner_boxes(lo, b.reshape(b.slice(boxes, begin, size), table), by_center, how.count);
    for (int64_t label = 0; label < classes; ++label) {
      const auto list = static_cast<size_t>(batch * classes + label);
      const std::vector<Val> one = b.ops(Kind::kNonMaxSuppressionV4,
                                         {b.gather(own, sorted.boxes[list], 0), sorted.ranks[list], how.at_most,
                                          how.threshold, b.scalar(0, DType::kFloat32)},
                                         {}, 2);
      kept.places.push_back(one[0]);
      kept.counts.push_back(one[1]);
    }
  }
  Val rows = batches * classes == 1 ? rows_of_one(lo, sorted.all, kept.places[0], kept.counts[0])
                                    : rows_of_many(lo, how, sorted, kept, batches, classes);
  lo.output(0, b.cast(rows, DType::kInt64));
}

}  // namespace lowtide::layout
