// SPDX-License-Identifier: Apache-2.0
// Unary functions: Abs, Neg, Sign, Reciprocal, Sqrt, Exp, Log, Erf, rounding, trigonometric and hyperbolic functions
// and their inverses. Those without a TFLite kernel are composed, in forms that are accurate where the plain formula
// cancels (near 0) and that overflow only where the result does.
#include <cmath>

#include "layout/lower/attributes.h"
#include "layout/lower/elementwise.h"

namespace lowtide::layout {

namespace {

void unary(Lowering& lo, Val (Builder::*function)(Val)) {
  ignore_consumed_inputs(lo);
  lo.output(0, (lo.b.*function)(lo.input(0)));
}

}  // namespace

void lower_sqrt(Lowering& lo) { unary(lo, &Builder::sqrt); }
void lower_exp(Lowering& lo) { unary(lo, &Builder::exp); }
void lower_log(Lowering& lo) { unary(lo, &Builder::log); }
void lower_floor(Lowering& lo) { unary(lo, &Builder::floor); }
void lower_ceil(Lowering& lo) { unary(lo, &Builder::ceil); }
void lower_neg(Lowering& lo) { unary(lo, &Builder::neg); }
void lower_round(Lowering& lo) { unary(lo, &Builder::round); }  // both: half to even
void lower_sin(Lowering& lo) { unary(lo, &Builder::sin); }
void lower_cos(Lowering& lo) { unary(lo, &Builder::cos); }

void lower_abs(Lowering& lo) {
  ignore_consumed_inputs(lo);
  lo.output(0, absolute_value(lo.b, lo.input(0)));
}

void lower_sign(Lowering& lo) {
  Val x = lo.input(0);
  if (stream::is_float(lo.dtype(x))) return lo.output(0, lo.b.sign(x));
  // SIGN has one integer kernel, MINIMUM and MAXIMUM have nearly all.
  Val at_most_one = lo.b.minimum(x, lo.b.scalar_like(1, x));
  const bool is_signed = stream::is_signed_int(lo.dtype(x));
  lo.output(0, is_signed ? lo.b.maximum(at_most_one, lo.b.scalar_like(-1, x)) : at_most_one);
}

void lower_reciprocal(Lowering& lo) {
  ignore_consumed_inputs(lo);
  Val x = lo.input(0);
  lo.output(0, lo.b.div(lo.b.scalar_like(1, x), x));
}

void lower_tan(Lowering& lo) {
  Val x = lo.input(0);
  const Val cosine = lo.b.cos(x);
  lo.output(0, lo.b.div(lo.b.sin(x), cosine));
}

namespace {

// sqrt(1 - x^2), without the cancellation near 1.
Val sqrt_one_minus_square(Builder& b, Val x) {
  Val one = b.scalar_like(1, x);
  const Val sum = b.add(one, x);
  return b.sqrt(b.mul(b.sub(one, x), sum));
}

// log(1 + y), accurate for small y too: the rounding error of 1 + y is divided out. y > -1.
Val log_of_one_plus(Builder& b, Val y) {
  Val one = b.scalar_like(1, y);
  Val u = b.add(y, one);
  Val log_u = b.log(u);
  Val kept = b.sub(u, one);  // y as rounded in the sum
  const Val corrected = b.mul(log_u, b.div(y, kept));
  Val small = b.select(b.equal(kept, b.scalar_like(0, y)), y, corrected);
  return b.select(b.greater(y, one), log_u, small);  // also where y / kept would be inf / inf
}

// An odd function of x from its values at |x|.
Val odd_function(Builder& b, Val x, Val at_magnitude) {
  const Val negative = b.neg(at_magnitude);
  return b.select(b.less(x, b.scalar_like(0, x)), negative, at_magnitude);
}

// Above this, sqrt(x^2 +- 1) is x in f32 and the inverse hyperbolic functions are log(2x).
constexpr double kLarge = 4096;

Val log_2x(Builder& b, Val x) { return b.add(b.log(x), std::log(2.0)); }

// cosh as a square of exp(|x| / 2): exp(|x|) overflows before cosh does.
Val cosh_of(Builder& b, Val x) {
  Val half = b.exp(b.mul(b.abs(x), 0.5));
  Val up = b.mul(b.mul(half, 0.5), half);
  return b.add(up, b.div(b.scalar_like(0.25, x), up));
}

}  // namespace

void lower_asin(Lowering& lo) {
  Val x = lo.input(0);
  lo.output(0, lo.b.atan2(x, sqrt_one_minus_square(lo.b, x)));
}

void lower_acos(Lowering& lo) {
  Val x = lo.input(0);
  lo.output(0, lo.b.atan2(sqrt_one_minus_square(lo.b, x), x));
}

void lower_atan(Lowering& lo) {
  Val x = lo.input(0);
  lo.output(0, lo.b.atan2(x, lo.b.scalar_like(1, x)));
}

// tanh * cosh: exp(x) - exp(-x) would cancel near 0.
void lower_sinh(Lowering& lo) {
  Val x = lo.input(0);
  const Val cosh = cosh_of(lo.b, x);
  lo.output(0, lo.b.mul(lo.b.tanh(x), cosh));
}

void lower_cosh(Lowering& lo) { lo.output(0, cosh_of(lo.b, lo.input(0))); }

void lower_asinh(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.input(0);
  Val m = b.abs(x);
  Val square = b.mul(m, m);
  Val root = b.sqrt(b.add(square, 1));
  Val small = log_of_one_plus(b, b.add(m, b.div(square, b.add(root, 1))));
  Val large = b.greater(m, b.scalar_like(kLarge, x));
  lo.output(0, odd_function(b, x, b.select(large, log_2x(b, m), small)));
}

void lower_acosh(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.input(0);
  Val t = b.sub(x, 1);
  // x^2 - 1 as (x - 1) * |x + 1|, which is below 0 below -1 too, so that the root is NaN there.
  Val small = log_of_one_plus(b, b.add(t, b.sqrt(b.mul(t, b.abs(b.add(t, 2))))));
  const Val large = log_2x(b, x);
  lo.output(0, b.select(b.greater(x, b.scalar_like(kLarge, x)), large, small));
}

void lower_atanh(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.input(0);
  Val m = b.abs(x);
  const Val rest = b.sub(b.scalar_like(1, x), m);
  Val ratio = b.div(b.add(m, m), rest);
  lo.output(0, odd_function(b, x, b.mul(log_of_one_plus(b, ratio), 0.5)));
}

void lower_erf(Lowering& lo) {
  if (!stream::is_float(lo.dtype(lo.input(0)))) lo.unsupported("an integer input is not supported");
  lo.output(0, lo.b.op(core::Kind::kErf, {lo.input(0)}));
}

}  // namespace lowtide::layout
