// SPDX-License-Identifier: Apache-2.0
// Add, Sub, Mul, Div, Mod, Pow, Sum, Mean, Max, Min.
//
// Differences: ONNX's integer division truncates (so does DIV); the result of Mod has the divisor's sign (FLOOR_MOD)
// or, with fmod = 1, the dividend's; Pow mixes dtypes and its result has the base's. Integer results wrap in the
// dtype's width, so computing in a wider type and casting back is exact for Add, Sub, Mul, Neg and Sum; it is exact for
// Div, Mod, Max, Min and Mean because their results are not larger than their operands. Quotients of u32 and u64, which
// no kernel computes, are composed (unsigned.h).
#include <cmath>
#include <limits>

#include "layout/lower/attributes.h"
#include "layout/lower/elementwise.h"
#include "layout/lower/unsigned.h"

namespace lowtide::layout {

void lower_add(Lowering& lo) {
  auto [a, b] = broadcast_operands(lo);
  lo.output(0, lo.b.add(a, b));
}

void lower_sub(Lowering& lo) {
  auto [a, b] = broadcast_operands(lo);
  lo.output(0, lo.b.sub(a, b));
}

void lower_mul(Lowering& lo) {
  auto [a, b] = broadcast_operands(lo);
  lo.output(0, lo.b.mul(a, b));
}

void lower_div(Lowering& lo) {
  auto [a, b] = broadcast_operands(lo);
  const DType dtype = lo.dtype(a);
  const bool has_kernel = dtype != DType::kUint32 && dtype != DType::kUint64;
  const bool folds = lo.b.is_constant(a) && lo.b.is_constant(b);
  lo.output(0, has_kernel || folds ? lo.b.div(a, b) : unsigned_quotient(lo.b, a, b));
}

namespace {

// The remainder with the dividend's sign, computed from the kernel's, which has the divisor's.
Val truncated_mod(Lowering& lo, Val a, Val b) {
  const DType dtype = lo.dtype(a);
  if (stream::is_float(dtype)) {
    // Computed of absolute values: where the signs differ, the kernel adds the divisor, which rounds.
    const Val divisor = lo.b.abs(b);
    Val remainder = lo.b.floor_mod(lo.b.abs(a), divisor);
    const Val negative = lo.b.neg(remainder);
    return lo.b.select(lo.b.less(a, lo.b.scalar_like(0, a)), negative, remainder);
  }
  Val remainder = lo.b.floor_mod(a, b);
  if (!stream::is_signed_int(dtype)) return remainder;
  // Not of absolute values: that of the smallest integer overflows.
  Val zero = lo.b.scalar_like(0, a);
  const Val b_is_negative = lo.b.less(b, zero);
  Val signs_differ = lo.b.not_equal(lo.b.less(a, zero), b_is_negative);
  Val off = lo.b.logical_and(signs_differ, lo.b.not_equal(remainder, zero));
  return lo.b.select(off, lo.b.sub(remainder, b), remainder);
}

}  // namespace

void lower_mod(Lowering& lo) {
  auto [a, b] = broadcast_operands(lo);
  const bool dividends_sign = lo.attr_i("fmod", 0) != 0;
  if (!dividends_sign && stream::is_float(lo.dtype(a)))
    lo.malformed("attribute 'fmod' must be 1 for floating-point operands; it is 0");
  if (lo.dtype(a) == DType::kUint64 && !(lo.b.is_constant(a) && lo.b.is_constant(b)))
    return lo.output(0, unsigned_remainder(lo.b, a, b));
  lo.output(0, dividends_sign ? truncated_mod(lo, a, b) : lo.b.floor_mod(a, b));
}

namespace {

// The largest exponent that is written as multiplications: exact for integers of any width, and as fast as POW.
constexpr double kMultiplied = 8;

// A whole number that any integer type holds.
bool is_count(double exponent) {
  return exponent >= 0 && exponent <= std::numeric_limits<int8_t>::max() && exponent == std::floor(exponent);
}

// The kernel has 32 bits.
bool has_power_of(DType dtype) { return !stream::is_integer(dtype) || stream::bits(dtype) <= 32; }

Val power_by_multiplications(Builder& b, Val x, int64_t exponent) {
  Val result;
  for (Val square = x; exponent > 0; exponent >>= 1) {
    if (exponent & 1) result = result ? b.mul(result, square) : square;
    if (exponent > 1) square = b.mul(square, square);
  }
  return result;
}

Val pow_by_constant(Lowering& lo, Val x, double exponent) {
  const DType dtype = lo.dtype(x);
  if (is_count(exponent) && exponent >= 1 && (exponent <= kMultiplied || !has_power_of(dtype)))
    return power_by_multiplications(lo.b, x, static_cast<int64_t>(exponent));
  if (!stream::is_float(dtype)) return {};
  if (exponent == 0.5) return lo.b.sqrt(x);
  // Not RSQRT, which XNNPACK computes as NaN for 0; fuse/reciprocal_root.cc makes it where x is above.
  if (exponent == -0.5) return lo.b.div(lo.b.scalar_like(1, x), lo.b.sqrt(x));
  if (exponent == -1) return lo.b.div(lo.b.scalar_like(1, x), x);
  return {};
}

}  // namespace

// Of -0 and -inf, Pow(x, 0.5) is 0 and inf, Sqrt is -0 and NaN; Pow(x, -0.5) is inf and 0, 1 / Sqrt is -inf and NaN.
// For all other x they are equal.
void lower_pow(Lowering& lo) {
  auto [x, y] = broadcast_operands(lo);
  const DType dtype = lo.dtype(x);
  auto exponents = lo.numbers(y);
  const bool scalar = exponents && exponents->size() == 1 && lo.rank(y) <= lo.rank(x);
  if (scalar)
    if (Val made = pow_by_constant(lo, x, (*exponents)[0])) return lo.output(0, made);

  // Integers with whole exponents stay integers unless an exponent may be negative: the kernel refuses those at run
  // time.
  bool in_integers = stream::is_integer(dtype) && (exponents || stream::is_integer(lo.dtype(y)));
  if (in_integers && exponents)
    for (double exponent : *exponents) in_integers = in_integers && is_count(exponent);
  if (in_integers) return lo.output(0, lo.b.pow(x, lo.b.cast(y, dtype)));

  // Everything else is computed in floats; for an integer base the result is truncated. f32 does not hold all integers
  // of more than 16 bits, for which ONNX Runtime has f64, and which of them are lost is told as where f64 is narrowed.
  const bool is_wide = stream::is_integer(dtype) && stream::bits(dtype) > 16;
  const bool in_f64 = is_wide || dtype == DType::kFloat64 || lo.dtype(y) == DType::kFloat64;
  const DType common = in_f64 ? DType::kFloat64 : DType::kFloat32;
  const Val exponent = lo.b.cast(y, common);
  Val power = lo.b.pow(lo.b.cast(x, common), exponent);
  lo.output(0, lo.b.cast(power, dtype));
}

namespace {

template <typename F>
Val fold_inputs(Lowering& lo, F&& f) {
  ignore_consumed_inputs(lo);
  Val made = lo.input(0);
  for (size_t i = 1; i < lo.input_count(); ++i) made = f(made, lo.input(i));
  return made;
}

}  // namespace

void lower_sum(Lowering& lo) {
  lo.output(0, fold_inputs(lo, [&](Val a, Val b) { return lo.b.add(a, b); }));
}

void lower_mean(Lowering& lo) {
  Val sum = fold_inputs(lo, [&](Val a, Val b) { return lo.b.add(a, b); });
  if (lo.input_count() == 1) return lo.output(0, sum);
  lo.output(0, lo.b.mul(sum, 1.0 / static_cast<double>(lo.input_count())));
}

void lower_max(Lowering& lo) {
  lo.output(0, fold_inputs(lo, [&](Val a, Val b) { return keeping_nan(lo.b, Kind::kMaximum, a, b); }));
}

void lower_min(Lowering& lo) {
  lo.output(0, fold_inputs(lo, [&](Val a, Val b) { return keeping_nan(lo.b, Kind::kMinimum, a, b); }));
}

}  // namespace lowtide::layout
