// SPDX-License-Identifier: Apache-2.0
// Floats of 8 and 4 bits, as ONNX defines them: f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz, f4e2m1 (a sign, exponent and
// mantissa), and f8e8m0 (an exponent alone: a power of two). No kernel of TFLite takes them; a lane of f4e2m1 has its
// bits in the low half of a byte.
#pragma once

#include <cstdint>
#include <vector>

#include "stream/dtype.h"

namespace lowtide::stream {

struct SmallFloat {
  int mantissa_bits;      // stored ones
  int smallest_exponent;  // of the smallest normal number; numbers below it are as far apart as those above it
  float largest;          // the largest finite number
  int sign_bit;           // the place of the sign's bit; f8e8m0: none
  uint8_t nan;            // f4e2m1: minus zero, to which ONNX's node suite casts NaN
  bool has_minus_zero;
};

bool is_small_float(DType dtype);
// The format of one of the five types with a sign; requires has_sign().
const SmallFloat& small_float(DType dtype);
bool has_sign(DType dtype);  // all but f8e8m0, and of types that are small floats

// The numbers that all bit patterns stand for, in their order: 256, or 16 of f4e2m1.
std::vector<float> small_float_values(DType dtype);
// To the nearest number, ties to even; what is too large, infinities too, becomes the largest number. Of
// f8e8m0 exact powers of two and NaN only: throws Error(kUnsupported) for what it does not have.
uint8_t small_float_bits(DType dtype, float x);

}  // namespace lowtide::stream
