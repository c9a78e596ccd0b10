// SPDX-License-Identifier: Apache-2.0
#include "stream/recipe/small_floats.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "stream/error.h"

namespace lowtide::stream {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

constexpr SmallFloat kE4M3FN{3, -6, 448, 7, 0x7f, true};
constexpr SmallFloat kE4M3FNUZ{3, -7, 240, 7, 0x80, false};
constexpr SmallFloat kE5M2{2, -14, 57344, 7, 0x7e, true};
constexpr SmallFloat kE5M2FNUZ{2, -15, 57344, 7, 0x80, false};
constexpr SmallFloat kE2M1{1, 0, 6, 3, 0x8, true};

const SmallFloat* signed_format(DType dtype) {
  switch (dtype) {
    case DType::kFloat8E4M3FN:
      return &kE4M3FN;
    case DType::kFloat8E4M3FNUZ:
      return &kE4M3FNUZ;
    case DType::kFloat8E5M2:
      return &kE5M2;
    case DType::kFloat8E5M2FNUZ:
      return &kE5M2FNUZ;
    case DType::kFloat4E2M1:
      return &kE2M1;
    default:
      return nullptr;
  }
}

// Bits without a sign.
float magnitude(const SmallFloat& format, unsigned bits) {
  const unsigned steps = 1u << format.mantissa_bits, mantissa = bits % steps;
  const int exponent = static_cast<int>(bits / steps);
  const unsigned whole = exponent == 0 ? mantissa : steps + mantissa;
  return std::ldexp(static_cast<float>(whole),
                    std::max(exponent, 1) - 1 + format.smallest_exponent - format.mantissa_bits);
}

}  // namespace

bool has_sign(DType dtype) { return signed_format(dtype) != nullptr; }
bool is_small_float(DType dtype) { return has_sign(dtype) || dtype == DType::kFloat8E8M0; }

const SmallFloat& small_float(DType dtype) {
  const SmallFloat* format = signed_format(dtype);
  if (!format) throw Error(Code::kInternal, "no small float with a sign");
  return *format;
}

std::vector<float> small_float_values(DType dtype) {
  std::vector<float> values;
  if (dtype == DType::kFloat8E8M0) {
    constexpr int kBias = 127, kNanBits = 255;
    for (int bits = 0; bits < kNanBits; ++bits) values.push_back(std::ldexp(1.0f, bits - kBias));
    values.push_back(kNan);
    return values;
  }
  const SmallFloat& format = small_float(dtype);
  const unsigned sign = 1u << format.sign_bit;
  for (unsigned bits = 0; bits < 2 * sign; ++bits) {
    float value = magnitude(format, bits % sign);
    if (value > format.largest) value = dtype == DType::kFloat8E5M2 && bits % sign == 0x7c ? kInfinity : kNan;
    if (!format.has_minus_zero && bits == sign) value = kNan;
    values.push_back(bits < sign ? value : -value);
  }
  return values;
}

// The powers of two that f8e8m0 has. ONNX rounds to them by an attribute of Cast, which no recipe knows.
static uint8_t power_bits(float x) {
  constexpr int kBias = 127;
  constexpr uint8_t kNanBits = 255;
  if (std::isnan(x)) return kNanBits;
  int exponent = 0;
  const bool is_power = std::frexp(x, &exponent) == 0.5f;
  const int bits = exponent - 1 + kBias;
  if (!is_power || bits < 0)
    throw Error(Code::kUnsupported, fmt::format("{} has no {}", dtype_name(DType::kFloat8E8M0), x));
  return static_cast<uint8_t>(bits);
}

uint8_t small_float_bits(DType dtype, float x) {
  if (dtype == DType::kFloat8E8M0) return power_bits(x);
  const SmallFloat& format = small_float(dtype);
  const unsigned sign = std::signbit(x) ? 1u << format.sign_bit : 0;
  if (std::isnan(x)) return format.has_minus_zero && dtype != DType::kFloat4E2M1 ? format.nan | sign : format.nan;
  const float size = std::min(std::fabs(x), format.largest);
  // What is left of `size` in the digits of a larger number, whose last place is that of the result.
  constexpr int kDigits = 23;  // of f32, after the first
  const float larger = std::max(size * (std::ldexp(1.0f, kDigits - format.mantissa_bits) - 1),
                                std::ldexp(1.5f, format.smallest_exponent - format.mantissa_bits + kDigits));
  const float rounded = larger - (larger - size);
  // Below the smallest normal number the mantissa counts the numbers, from there on they follow an f32's.
  const float smallest_normal = std::ldexp(1.0f, format.smallest_exponent);
  const int bits =
      rounded < smallest_normal
          ? static_cast<int>(std::ldexp(rounded, format.mantissa_bits - format.smallest_exponent))
          : static_cast<int>((std::bit_cast<uint32_t>(rounded) - std::bit_cast<uint32_t>(smallest_normal)) >>
                             (kDigits - format.mantissa_bits)) +
                (1 << format.mantissa_bits);
  return static_cast<uint8_t>(bits == 0 && !format.has_minus_zero ? 0 : static_cast<unsigned>(bits) | sign);
}

}  // namespace lowtide::stream
