// SPDX-License-Identifier: Apache-2.0
// Lanes of f16 (IEEE 754's binary16) and bf16 (the upper half of an f32). Nothing is computed in them: they are widened
// to f32 and rounded back. Both ways are without branches, so that loops over them vectorise.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace lowtide::stream {

struct Half {
  uint16_t bits = 0;
};
struct BFloat16 {
  uint16_t bits = 0;
};

template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
// The type arithmetic is done in.
template <typename T>
using Computed = std::conditional_t<kIsHalf<T>, float, T>;

inline float computed(Half x) {
  constexpr uint32_t kSmallestNormal = 1 << 23, kInfinity = 0x1f << 23, kBias = (127 - 15) << 23;
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000) << 16;
  // Exponent and mantissa in the places of an f32's.
  const uint32_t magnitude = static_cast<uint32_t>(x.bits & 0x7fff) << 13;
  // As the mantissa of a normal number, which is subtracted: a host may have its processor take denormals for zeros.
  const float shifted = std::bit_cast<float>(magnitude + kBias + kSmallestNormal);
  const uint32_t denormal = std::bit_cast<uint32_t>(shifted - std::bit_cast<float>(kBias + kSmallestNormal));
  const uint32_t finite = magnitude < kSmallestNormal ? denormal : magnitude + kBias;
  return std::bit_cast<float>(sign | (magnitude < kInfinity ? finite : 0x7f800000 | magnitude));
}
inline float computed(BFloat16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }
template <typename T>
T computed(T x) {
  return x;
}

// To the nearest number, ties to even. NaN becomes the quiet NaN of its sign.
inline uint16_t half_bits(float x) {
  constexpr uint32_t kInfinity = 0x7f800000, kTooLarge = (127 + 16) << 23, kSmallestNormal = (127 - 14) << 23;
  constexpr uint32_t kDenormalMagic = (127 - 15 + 23 - 10 + 1) << 23;
  auto bits = std::bit_cast<uint32_t>(x);
  uint32_t sign = (bits & 0x80000000) >> 16, magnitude = bits & 0x7fffffff;
  // The addition shifts a denormal's mantissa into place and rounds it.
  float shifted = std::bit_cast<float>(magnitude) + std::bit_cast<float>(kDenormalMagic);
  uint32_t denormal = std::bit_cast<uint32_t>(shifted) - kDenormalMagic;
  uint32_t normal = (magnitude - ((127 - 15) << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  uint32_t huge = magnitude > kInfinity ? 0x7e00 : 0x7c00;
  uint32_t finite = magnitude < kSmallestNormal ? denormal : normal;
  return static_cast<uint16_t>(sign | (magnitude >= kTooLarge ? huge : finite));
}
inline uint16_t bfloat16_bits(float x) {
  auto bits = std::bit_cast<uint32_t>(x);
  uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16, quiet = ((bits & 0x80000000) >> 16) | 0x7fc0;
  return static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

// From the type arithmetic is done in to the type of the lane.
template <typename T, typename C>
T stored(C x) {
  if constexpr (std::is_same_v<T, Half>) {
    return {half_bits(static_cast<float>(x))};
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return {bfloat16_bits(static_cast<float>(x))};
  } else {
    return static_cast<T>(x);
  }
}

}  // namespace lowtide::stream
