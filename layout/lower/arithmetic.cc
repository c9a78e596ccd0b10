// SPDX-License-Identifier: Apache-2.0
// Arithmetic of two and more operands. Where the specifications differ: ONNX's integer division truncates (so does
// DIV), its Mod follows the divisor's sign (FLOOR_MOD) or, with fmod = 1, the dividend's; Pow mixes dtypes and gives
// the base's. Integer results wrap in the dtype's width: computing in a wider type and casting back is exact for Add,
// Sub, Mul, Neg, Sum and, since its result cannot be larger than its operands, for Div, Mod, Max, Min, Mean.
#include <cmath>

#include "layout/lower/operands.h"

namespace lowtide::layout {

void lower_add(Lowering& lo) {
  auto [a, b] = operands(lo);
  lo.output(0, lo.b.add(a, b));
}

void lower_sub(Lowering& lo) {
  auto [a, b] = operands(lo);
  lo.output(0, lo.b.sub(a, b));
}

void lower_mul(Lowering& lo) {
  auto [a, b] = operands(lo);
  lo.output(0, lo.b.mul(a, b));
}

void lower_div(Lowering& lo) {
  auto [a, b] = operands(lo);
  lo.output(0, lo.b.div(a, b));
}

namespace {

// The remainder with the dividend's sign, from the kernel's, which has the divisor's.
Val truncated_mod(Lowering& lo, Val a, Val b) {
  const DType dtype = lo.dtype(a);
  if (stream::is_float(dtype)) {
    // Of magnitudes, because the kernel adds the divisor when signs differ, which rounds.
    Val remainder = lo.b.floor_mod(lo.b.abs(a), lo.b.abs(b));
    return lo.b.select(lo.b.less(a, lo.b.scalar_like(0, a)), lo.b.neg(remainder), remainder);
  }
  Val remainder = lo.b.floor_mod(a, b);
  if (!stream::is_signed_int(dtype)) return remainder;
  // Not of magnitudes: the smallest integer has none.
  Val zero = lo.b.scalar_like(0, a);
  Val signs_differ = lo.b.not_equal(lo.b.less(a, zero), lo.b.less(b, zero));
  Val off = lo.b.logical_and(signs_differ, lo.b.not_equal(remainder, zero));
  return lo.b.select(off, lo.b.sub(remainder, b), remainder);
}

}  // namespace

void lower_mod(Lowering& lo) {
  auto [a, b] = operands(lo);
  const bool dividends_sign = lo.attr_i("fmod", 0) != 0;
  if (!dividends_sign && stream::is_float(lo.dtype(a))) lo.malformed("fmod must be 1 for floating point operands");
  lo.output(0, dividends_sign ? truncated_mod(lo, a, b) : lo.b.floor_mod(a, b));
}

namespace {

// The largest power that is written as multiplications: exact for integers of any width, and no slower than POW.
constexpr double kMultiplied = 8;

Val multiplied(Builder& b, Val x, int64_t exponent) {
  Val result;
  for (Val square = x; exponent > 0; exponent >>= 1) {
    if (exponent & 1) result = result ? b.mul(result, square) : square;
    if (exponent > 1) square = b.mul(square, square);
  }
  return result;
}

Val pow_by_constant(Lowering& lo, Val x, double exponent) {
  const DType dtype = lo.dtype(x);
  if (exponent == std::floor(exponent) && exponent >= 1 && exponent <= kMultiplied)
    return multiplied(lo.b, x, static_cast<int64_t>(exponent));
  if (!stream::is_float(dtype)) return {};
  if (exponent == 0.5) return lo.b.sqrt(x);
  if (exponent == -0.5) return lo.b.rsqrt(x);
  if (exponent == -1) return lo.b.div(lo.b.scalar_like(1, x), x);
  return {};
}

}  // namespace

// Sqrt and Pow(x, 0.5) differ for -0 and -inf only: 0 and inf against -0 and NaN.
void lower_pow(Lowering& lo) {
  auto [x, y] = operands(lo);
  const DType dtype = lo.dtype(x);
  auto exponents = lo.numbers(y);
  const bool scalar = exponents && exponents->size() == 1 && lo.rank(y) <= lo.rank(x);
  if (scalar)
    if (Val made = pow_by_constant(lo, x, (*exponents)[0])) return lo.output(0, made);

  // Integers to integer powers stay integers unless a power may be negative, which the kernel refuses at run time.
  bool in_integers = stream::is_integer(dtype) && stream::is_integer(lo.dtype(y));
  if (in_integers && exponents)
    for (double exponent : *exponents) in_integers = in_integers && exponent >= 0;
  if (in_integers) return lo.output(0, lo.b.pow(x, lo.b.cast(y, dtype)));

  // All else in f32: the result is cut toward zero when the base is an integer.
  const DType common = dtype == DType::kFloat64 || lo.dtype(y) == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  Val power = lo.b.pow(lo.b.cast(x, common), lo.b.cast(y, common));
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
  lo.output(0, fold_inputs(lo, [&](Val a, Val b) { return lo.b.maximum(a, b); }));
}

void lower_min(Lowering& lo) {
  lo.output(0, fold_inputs(lo, [&](Val a, Val b) { return lo.b.minimum(a, b); }));
}

}  // namespace lowtide::layout
