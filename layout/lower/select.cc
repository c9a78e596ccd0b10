// SPDX-License-Identifier: Apache-2.0
// Where, OneHot, NonZero, Trilu, Unique: choosing by conditions.
//
// How the specifications differ: ONE_HOT counts no index from the end. WHERE lists one row an element, NonZero one row
// an axis. UNIQUE keeps the order of appearance, ONNX sorts unless told otherwise.
#include <fmt/format.h>

#include <string>

#include "layout/lower/extents.h"

namespace lowtide::layout {
namespace {

// An element of a list as a scalar.
Val element(Lowering& lo, Val list, int64_t at) {
  const Dim one = 1;
  return lo.b.reshape(lo.b.slice(list, {&at, 1}, {&one, 1}), {});
}

}  // namespace

void lower_where(Lowering& lo) { lo.output(0, lo.b.select(lo.input(0), lo.input(1), lo.input(2))); }

void lower_one_hot(Lowering& lo) {
  Val indices = lo.input(0), depth = as_scalar(lo, lo.input(1)), values = lo.input(2);
  const int axis = lo.axis(lo.attr_i("axis", -1), lo.rank(indices) + 1);
  if (lo.rank(values) != 1 || lo.b.dim(values, 0) != 2) lo.malformed("the values are not [off, on]");
  if (auto known = lo.numbers(depth); known && !((*known)[0] >= 1 && (*known)[0] <= INT32_MAX))
    lo.malformed(fmt::format("a depth of {}", (*known)[0]));
  if (lo.dtype(indices) != DType::kInt32) indices = lo.b.cast(indices, DType::kInt64);
  if (lo.opset() >= 11) {
    // -depth .. -1 count from the end; what lies outside that too stays outside.
    Val below = lo.b.less(indices, lo.b.scalar_like(0, indices));
    indices = lo.b.select(below, lo.b.add(indices, lo.b.cast(depth, lo.dtype(indices))), indices);
  }
  Val off = element(lo, values, 0), on = element(lo, values, 1);
  lo.output(0, lo.b.one_hot(indices, lo.b.cast(depth, DType::kInt32), on, off, axis));
}

void lower_non_zero(Lowering& lo) {
  Val x = lo.input(0);
  if (lo.rank(x) == 0) x = lo.b.reshape(x, {1});  // as ONNX Runtime does
  lo.output(0, lo.b.transpose(lo.b.where(x), {1, 0}));
}

void lower_trilu(Lowering& lo) {
  Val x = lo.input(0);
  if (lo.rank(x) < 2) lo.malformed("a matrix is needed, not rank " + std::to_string(lo.rank(x)));
  const bool upper = lo.attr_i("upper", 1) != 0;
  const int across[] = {0}, down[] = {1};
  Val columns = lo.b.unsqueeze(counting(lo, lo.b.dim(x, -1), DType::kInt32), across);
  Val rows = lo.b.unsqueeze(counting(lo, lo.b.dim(x, -2), DType::kInt32), down);
  // k counts diagonals to the right of the main one.
  if (lo.has_input(1)) rows = lo.b.add(rows, as_scalar(lo, as_i32_clamped(lo, lo.input(1))));
  Val kept = upper ? lo.b.greater_equal(columns, rows) : lo.b.less_equal(columns, rows);
  lo.output(0, lo.b.select(kept, x, lo.b.scalar(0, lo.dtype(x))));
}

}  // namespace lowtide::layout
