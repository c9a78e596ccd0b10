// SPDX-License-Identifier: Apache-2.0
// Det: Gaussian elimination with partial pivoting, unrolled for matrices of a small static size.
//
// The pivot's row is known at run time only: it is gathered, and so are the remaining rows, in their order. Moving row
// p to the top shifts p rows down by one, which changes the sign p times.
#include <fmt/format.h>

#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

constexpr int64_t kLargest = 16;  // each additional row costs about 20 operators

// One column of [B, rows, columns] as [B, rows].
Val first_column(Lowering& lo, Val x) {
  Val column = lo.b.slice(x, std::vector<int64_t>{0, 0, 0}, std::vector<Dim>{-1, -1, 1});
  return squeeze_axes(lo, column, {2});
}

Val without_first_column(Lowering& lo, Val x) {
  return lo.b.slice(x, std::vector<int64_t>{0, 0, 1}, std::vector<Dim>{-1, -1, -1});
}

// Eliminates the first column. Returns the pivot with its sign [B, 1]; `x` becomes the remaining matrix.
Val eliminate(Lowering& lo, Val& x) {
  Builder& b = lo.b;
  const int64_t rows = b.dim(x, 1);
  Val place = unsqueeze_axes(lo, b.arg_max(b.abs(first_column(lo, x)), 1, DType::kInt32), {1});  // [B, 1]
  Val top = b.gather(x, place, 1, 1);                                                            // [B, 1, columns]
  Val others = iota(lo, rows - 1, DType::kInt32);
  others = b.add(others, b.cast(b.greater_equal(others, place), DType::kInt32));  // all rows but that one
  Val rest = b.gather(x, others, 1, 1);
  Val pivot = first_column(lo, top);
  // Below a pivot of 0 there are only zeros: nothing needs to be subtracted.
  Val divisor = b.select(b.equal(pivot, b.scalar_like(0, pivot)), b.scalar_like(1, pivot), pivot);
  Val factor = unsqueeze_axes(lo, b.div(first_column(lo, rest), divisor), {2});
  const Val multiple = b.mul(factor, without_first_column(lo, top));
  x = b.sub(without_first_column(lo, rest), multiple);
  Val odd = b.floor_mod(place, b.scalar_like(2, place));
  const Val negative = b.neg(pivot);
  return b.select(b.equal(odd, b.scalar_like(1, odd)), negative, pivot);
}

}  // namespace

void lower_det(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.input(0);
  if (lo.rank(x) < 2) lo.malformed(fmt::format("the input must have rank 2 or more; it has rank {}", lo.rank(x)));
  const int64_t size = lo.need_static(b.dim(x, -1), "the size of the matrix");
  if (lo.need_static(b.dim(x, -2), "the size of the matrix") != size)
    lo.malformed(fmt::format("the matrix must be square; it is {} x {}", b.dim(x, -2), size));
  if (size < 1 || size > kLargest)
    lo.unsupported(
        fmt::format("the determinant of a {0} x {0} matrix is not supported: the largest size is {1}", size, kLargest));
  std::vector<Dim> batch(lo.shape(x).begin(), lo.shape(x).end() - 2);
  x = reshape_to(lo, x, std::vector<Dim>{b.graph.symbols.product(batch), size, size});
  Val product;
  for (int64_t left = size; left > 1; --left) {
    Val pivot = eliminate(lo, x);
    product = product ? b.mul(product, pivot) : pivot;
  }
  Val last = first_column(lo, x);
  lo.output(0, reshape_to(lo, product ? b.mul(product, last) : last, batch));
}

}  // namespace lowtide::layout
