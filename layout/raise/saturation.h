// SPDX-License-Identifier: Apache-2.0
// Which integer CAST makes of a float beyond the range of its target, or of NaN. Source: LiteRT's
// tflite/kernels/cast.cc, SaturatingCastFloatingToInteger.
#pragma once

#include <cmath>
#include <cstdint>

#include "stream/dtype.h"

namespace lowtide::layout {

// What is below `low` becomes `low`; what is not below `above`, NaN too, becomes `most`. All of u64 are not here.
struct Saturation {
  static constexpr int kMostBits = 63;  // of a number that is not negative

  static int magnitude_bits(stream::DType to) { return stream::bits(to) - (stream::is_signed_int(to) ? 1 : 0); }
  static bool has_form(stream::DType to) { return magnitude_bits(to) <= kMostBits; }

  explicit Saturation(stream::DType to)
      : low(stream::is_signed_int(to) ? -std::ldexp(1.0, magnitude_bits(to)) : 0),
        above(std::ldexp(1.0, magnitude_bits(to))),
        most(static_cast<int64_t>((uint64_t{1} << magnitude_bits(to)) - 1)) {}

  double low, above;  // powers of two, which floats of 32 bits hold exactly
  int64_t most;
};

}  // namespace lowtide::layout
