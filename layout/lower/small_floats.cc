// SPDX-License-Identifier: Apache-2.0
// What a number beyond the largest one becomes without 'saturate' follows from the bits of the largest: NaN of f8e4m3fn
// and the infinity of f8e5m2 are the next pattern, the others have one NaN, the pattern of minus zero.
//
// The powers of two of f8e8m0 are the exponents of floats. The trap: the smallest, 2^-127, is a denormal f32.
#include "layout/lower/small_floats.h"

#include <fmt/format.h>

#include <cmath>

#include "layout/lower/elementwise.h"
#include "stream/recipe/small_floats.h"

namespace lowtide::layout {
namespace {

using stream::SmallFloat;

Val beyond(Builder& b, Val x, const SmallFloat& format) {
  const double step = std::ldexp(1.0, std::ilogb(format.largest) - format.mantissa_bits);
  const bool is_even = std::fmod(format.largest / step, 2) == 0;  // half a step above it is still rounded to it
  const Val size = b.abs(x), limit = b.scalar_like(format.largest + step / 2, x);
  return is_even ? b.greater(size, limit) : b.greater_equal(size, limit);
}

Val unsaturated(Builder& b, Val x, DType to) {
  const SmallFloat& format = stream::small_float(to);
  const Val bits = b.cast(bitcast_to(b, b.cast(x, to), DType::kUint8), DType::kInt32);
  const Val special = format.has_minus_zero ? b.add(bits, 1) : b.scalar(format.nan, DType::kInt32);
  return bitcast_to(b, b.cast(b.select(beyond(b, x, format), special, bits), DType::kUint8), to);
}

enum class Rounding { kUp, kDown, kNearest };

Val nearby_power_of_two(Builder& b, Val x, Rounding rounding) {
  constexpr double kNormal = 1 << 23, kSmallest = 1 << 22;  // the bits of 2^-126 and of 2^-127
  constexpr int kMantissaBits = 23, kLargest = 254, kNan = 255;
  const auto i32 = [&](double value) { return b.scalar(value, DType::kInt32); };
  const Val bits = b.maximum(bitcast_to(b, x, DType::kInt32), i32(0));  // numbers below 0 become the smallest
  const double before = rounding == Rounding::kUp ? kNormal - 1 : rounding == Rounding::kDown ? 0 : kNormal / 2;
  Val exponent = b.right_shift(b.add(bits, before), i32(kMantissaBits));
  if (rounding != Rounding::kDown) {
    const double rounded_down = rounding == Rounding::kUp ? kSmallest : kSmallest + kSmallest / 2 - 1;
    const Val of_denormal = b.cast(b.greater(bits, i32(rounded_down)), DType::kInt32);
    exponent = b.select(b.less(bits, i32(kNormal)), of_denormal, exponent);
  }
  exponent = b.select(b.not_equal(x, x), i32(kNan), b.minimum(exponent, i32(kLargest)));
  return bitcast_to(b, b.cast(exponent, DType::kUint8), DType::kFloat8E8M0);
}

Rounding round_mode(Lowering& lo) {
  const std::string mode = lo.attr_s("round_mode", "up");
  if (mode == "up") return Rounding::kUp;
  if (mode == "down") return Rounding::kDown;
  if (mode == "nearest") return Rounding::kNearest;
  lo.malformed(fmt::format("attribute 'round_mode' is '{}'; it must be 'up', 'down' or 'nearest'", mode));
}

}  // namespace

Val to_small_float(Lowering& lo, Val x, DType to) {
  const bool saturates = lo.attr_i("saturate", 1) != 0;
  if (to != DType::kFloat8E8M0) {
    lo.ignore_attr("round_mode");  // of f8e8m0
    return saturates || to == DType::kFloat4E2M1 ? lo.b.cast(x, to) : unsaturated(lo.b, x, to);
  }
  const Rounding rounding = round_mode(lo);
  if (!saturates)
    lo.unsupported(
        "a cast to float8e8m0 with saturate = 0 is not supported: ONNX says what it gives for one 'round_mode'",
        "set saturate to 1");
  return nearby_power_of_two(lo.b, x, rounding);
}

}  // namespace lowtide::layout
