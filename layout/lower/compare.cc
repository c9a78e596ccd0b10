// SPDX-License-Identifier: Apache-2.0
// Equal, Greater, GreaterOrEqual, Less, LessOrEqual, And, Or, Xor, Not, IsNaN, IsInf. The kernels compare bool for
// equality only, and no strings. A comparison in a wider dtype gives the same result.
#include <limits>

#include "layout/lower/elementwise.h"
#include "stream/recipe/small_floats.h"

namespace lowtide::layout {

namespace {

void compare(Lowering& lo, Val (Builder::*function)(Val, Val)) {
  auto [a, b] = broadcast_operands(lo);
  if (lo.dtype(a) == DType::kString) lo.unsupported("no TFLite kernel compares strings");
  lo.output(0, (lo.b.*function)(a, b));
}

Val as_kernels_take(Lowering& lo, Val x) {
  return stream::is_small_float(lo.dtype(x)) ? lo.b.cast(x, DType::kFloat32) : x;
}

}  // namespace

void lower_equal(Lowering& lo) { compare(lo, &Builder::equal); }
void lower_greater(Lowering& lo) { compare(lo, &Builder::greater); }
void lower_greater_or_equal(Lowering& lo) { compare(lo, &Builder::greater_equal); }
void lower_less(Lowering& lo) { compare(lo, &Builder::less); }
void lower_less_or_equal(Lowering& lo) { compare(lo, &Builder::less_equal); }
void lower_and(Lowering& lo) { compare(lo, &Builder::logical_and); }
void lower_or(Lowering& lo) { compare(lo, &Builder::logical_or); }
void lower_xor(Lowering& lo) { compare(lo, &Builder::not_equal); }

void lower_not(Lowering& lo) { lo.output(0, lo.b.logical_not(lo.input(0))); }

// Only NaN is not equal to itself.
void lower_is_nan(Lowering& lo) {
  Val x = as_kernels_take(lo, lo.input(0));
  lo.output(0, lo.b.not_equal(x, x));
}

void lower_is_inf(Lowering& lo) {
  Val x = as_kernels_take(lo, lo.input(0));
  const bool negative = lo.attr_i("detect_negative", 1) != 0, positive = lo.attr_i("detect_positive", 1) != 0;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (negative && positive) return lo.output(0, lo.b.equal(lo.b.abs(x), lo.b.scalar_like(kInfinity, x)));
  if (positive) return lo.output(0, lo.b.equal(x, lo.b.scalar_like(kInfinity, x)));
  if (negative) return lo.output(0, lo.b.equal(x, lo.b.scalar_like(-kInfinity, x)));
  lo.output(0, lo.b.less(x, x));  // neither is detected: false everywhere
}

}  // namespace lowtide::layout
