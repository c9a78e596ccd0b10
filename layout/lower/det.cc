// SPDX-License-Identifier: Apache-2.0
// Det: Gaussian elimination with partial pivoting, written out for matrices of a small static size.
//
// The pivot's row is only known at run time: it is gathered, and so are the rows that remain, in their order. Taking
// row p to the top moves p rows down by one, which changes the sign p times.
#include <fmt/format.h>

#include "layout/lower/extents.h"

namespace lowtide::layout {
namespace {

constexpr int64_t kLargest = 16;  // each row more costs some 20 operators

// One column of [B, rows, columns] as [B, rows].
Val first_column(Lowering& lo, Val x) {
  Val column = lo.b.slice(x, std::vector<int64_t>{0, 0, 0}, std::vector<Dim>{-1, -1, 1});
  return drop_ones(lo, column, {2});
}

Val without_first_column(Lowering& lo, Val x) {
  return lo.b.slice(x, std::vector<int64_t>{0, 0, 1}, std::vector<Dim>{-1, -1, -1});
}

// Eliminates the first column: the pivot with its sign [B, 1], and what is left of x.
Val eliminate(Lowering& lo, Val& x) {
  Builder& b = lo.b;
  const int64_t rows = b.dim(x, 1);
  Val place = add_ones(lo, b.arg_max(b.abs(first_column(lo, x)), 1, DType::kInt32), {1});  // [B, 1]
  Val top = b.gather(x, place, 1, 1);                                                      // [B, 1, columns]
  Val others = counting(lo, rows - 1, DType::kInt32);
  others = b.add(others, b.cast(b.greater_equal(others, place), DType::kInt32));  // all rows but that one
  Val rest = b.gather(x, others, 1, 1);
  Val pivot = first_column(lo, top);
  // A pivot of 0 stands over zeros only: then nothing needs to be subtracted.
  Val divisor = b.select(b.equal(pivot, b.scalar_like(0, pivot)), b.scalar_like(1, pivot), pivot);
  Val factor = add_ones(lo, b.div(first_column(lo, rest), divisor), {2});
  x = b.sub(without_first_column(lo, rest), b.mul(factor, without_first_column(lo, top)));
  Val odd = b.floor_mod(place, b.scalar_like(2, place));
  return b.select(b.equal(odd, b.scalar_like(1, odd)), b.neg(pivot), pivot);
}

}  // namespace

void lower_det(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.input(0);
  if (lo.rank(x) < 2) lo.malformed(fmt::format("a matrix of rank {}", lo.rank(x)));
  const int64_t size = lo.need_static(b.dim(x, -1), "the size of the matrix");
  if (lo.need_static(b.dim(x, -2), "the size of the matrix") != size) lo.malformed("the matrix is not square");
  if (size < 1 || size > kLargest) lo.unsupported(fmt::format("the determinant of {0} x {0}", size));
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
