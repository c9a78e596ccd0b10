// SPDX-License-Identifier: Apache-2.0
// Trilu, also that of com.microsoft.
#include <string>

#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

// All diagonals beyond are alike, and the number of a row can be added to it.
constexpr int64_t kFarthestDiagonal = 1 << 30;

}  // namespace

void lower_trilu(Lowering& lo) {
  Val x = lo.input(0);
  if (lo.rank(x) < 2) lo.malformed("the input must have rank 2 or more; it has rank " + std::to_string(lo.rank(x)));
  const bool upper = lo.attr_i("upper", 1) != 0;
  const int across[] = {0}, down[] = {1};
  Val columns = lo.b.unsqueeze(iota(lo, lo.b.dim(x, -1), DType::kInt32), across);
  Val rows = lo.b.unsqueeze(iota(lo, lo.b.dim(x, -2), DType::kInt32), down);
  // k counts diagonals to the right of the main one.
  if (lo.has_input(1)) rows = lo.b.add(rows, as_scalar(lo, as_i32_clamped(lo, lo.input(1), kFarthestDiagonal)));
  Val kept = upper ? lo.b.greater_equal(columns, rows) : lo.b.less_equal(columns, rows);
  lo.output(0, lo.b.select(kept, x, lo.b.scalar(0, lo.dtype(x))));
}

}  // namespace lowtide::layout
