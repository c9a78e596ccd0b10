// SPDX-License-Identifier: Apache-2.0
// Division: m = a - FLOOR_MOD(a, d) is a multiple of d. The quotient of m and d as floats has an error of 2^-22 of
// itself, so what is left of m after that many times d were subtracted is 2^22 times smaller, or nothing:
//
//     t = round(f32(m) / f32(d));  q = q + t;  m = m - t * d         until m is 0: 2 times for 32 bits, 4 for 63
//
// Words of 64 bits are halved, n = 2 h + l, because i64 holds 63: 2 (h / d) is the quotient or one less. Divisors of
// 64 bits go once into n, or not at all.
#include "layout/lower/unsigned.h"

#include <array>
#include <limits>
#include <vector>

#include "layout/lower/elementwise.h"

namespace lowtide::layout {

namespace {

Val i64(Builder& b, int64_t value) { return {b.graph.add_ints(std::array{value}, DType::kInt64, {})}; }
constexpr int64_t kTopBit = std::numeric_limits<int64_t>::min();

// a / d of i64 that are not negative, d not 0.
Val whole_quotient(Builder& b, Val a, Val d, int steps) {
  constexpr double kMost = 4611686018427387904.0;  // 2^62: a float that is rounded to 2^63 fits no i64
  const Val divisor = b.cast(d, DType::kFloat32);
  Val left = b.sub(a, b.floor_mod(a, d)), sum;
  for (int i = 0; i < steps; ++i) {
    const Val times = b.round(b.div(b.cast(left, DType::kFloat32), divisor));
    const Val whole = b.cast(b.minimum(times, b.scalar(kMost, DType::kFloat32)), DType::kInt64);
    sum = sum ? b.add(sum, whole) : whole;
    if (i + 1 < steps) left = b.sub(left, b.mul(whole, d));
  }
  return sum;
}

// Of words with the bits of u64.
Val is_less(Builder& b, Val x, Val y) { return b.less(b.add(x, i64(b, kTopBit)), b.add(y, i64(b, kTopBit))); }

Val shifted(Builder& b, Val words, Val count) {
  constexpr int kHalf = 32;
  const auto i32 = [&](int value) { return b.scalar(value, DType::kInt32); };
  const std::vector<Val> halves = b.split(b.op(Kind::kBitcast, {words}, core::IndexOptions{DType::kUint32}),
                                          std::array<int64_t, 2>{1, 1}, b.rank(words));
  const Shape shape = b.shape(words);
  const Val low = b.reshape(halves[0], shape), high = b.reshape(halves[1], shape);
  // By less than 32: the high half is multiplied, as i64, by 2^(32 - count).
  std::vector<int64_t> powers;
  for (int i = 0; i <= kHalf; ++i) powers.push_back(int64_t{1} << i);
  const Val table{b.graph.add_ints(powers, DType::kInt64, {kHalf + 1})};
  const Val factor = b.gather(table, b.maximum(b.sub(i32(kHalf), count), i32(0)), 0);
  const auto down = [&](Val half, Val by) {
    const Val limited = b.maximum(b.minimum(by, i32(kHalf - 1)), i32(0));
    return b.cast(b.right_shift(half, b.cast(limited, DType::kUint32)), DType::kInt64);
  };
  const Val of_low = b.select(b.less(count, i32(kHalf)), down(low, count), i64(b, 0));
  const Val of_both = b.add(b.mul(b.cast(high, DType::kInt64), factor), of_low);
  const Val of_high = down(high, b.sub(count, i32(kHalf)));
  return b.select(b.less_equal(count, i32(kHalf)), of_both, of_high);
}

Val word_quotient(Builder& b, Val a, Val d) {
  constexpr int kSteps = 4;
  const Val is_large = b.less(d, i64(b, 0));
  const Val half = shifted(b, a, b.scalar(1, DType::kInt32));
  const Val of_half = whole_quotient(b, half, b.select(is_large, i64(b, 1), d), kSteps);
  const Val least = b.select(is_large, i64(b, 0), b.add(of_half, of_half));
  const Val left = b.sub(a, b.mul(least, d));
  return b.add(least, b.select(is_less(b, left, d), i64(b, 0), i64(b, 1)));
}

}  // namespace

Val unsigned_quotient(Builder& b, Val a, Val d) {
  const DType dtype = b.dtype(a);
  constexpr int kSteps = 2;
  if (dtype == DType::kUint32)
    return b.cast(whole_quotient(b, b.cast(a, DType::kInt64), b.cast(d, DType::kInt64), kSteps), dtype);
  return bitcast_to(b, word_quotient(b, bitcast_to(b, a, DType::kInt64), bitcast_to(b, d, DType::kInt64)), dtype);
}

Val unsigned_remainder(Builder& b, Val a, Val d) {
  const Val x = bitcast_to(b, a, DType::kInt64), y = bitcast_to(b, d, DType::kInt64);
  return bitcast_to(b, b.sub(x, b.mul(word_quotient(b, x, y), y)), b.dtype(a));
}

Val unsigned_shift_right(Builder& b, Val x, Val count) {
  const Val places = b.cast(bitcast_to(b, count, DType::kInt64), DType::kInt32);
  return bitcast_to(b, shifted(b, bitcast_to(b, x, DType::kInt64), places), b.dtype(x));
}

Val to_u64(Builder& b, Val x) {
  constexpr double kTop = 9223372036854775808.0;  // 2^63
  const Val is_large = b.greater_equal(x, b.scalar_like(kTop, x));
  const Val below = b.select(is_large, b.sub(x, kTop), x);
  const Val words = b.add(b.cast(below, DType::kInt64), b.select(is_large, i64(b, kTopBit), i64(b, 0)));
  return bitcast_to(b, words, DType::kUint64);
}

}  // namespace lowtide::layout
