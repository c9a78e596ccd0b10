// SPDX-License-Identifier: Apache-2.0
// From a DType to the C++ type of its lanes, for templates over element types.
#pragma once

#include <Eigen/Core>
#include <bit>
#include <cstdint>
#include <string>
#include <type_traits>

#include "stream/dtype.h"
#include "stream/error.h"

namespace lowtide::stream {

template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, Eigen::half> || std::is_same_v<T, Eigen::bfloat16>;
// The type arithmetic is done in.
template <typename T>
using Computed = std::conditional_t<kIsHalf<T>, float, T>;

inline float computed(Eigen::half x) { return static_cast<float>(x); }
inline float computed(Eigen::bfloat16 x) { return static_cast<float>(x); }
template <typename T>
T computed(T x) {
  return x;
}

// Rounding half to even, as Eigen's conversions but without branches, so that loops over them vectorise. NaN becomes
// the quiet NaN of its sign.
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
  if constexpr (std::is_same_v<T, Eigen::half>) {
    return Eigen::numext::bit_cast<Eigen::half>(half_bits(static_cast<float>(x)));
  } else if constexpr (std::is_same_v<T, Eigen::bfloat16>) {
    return Eigen::numext::bit_cast<Eigen::bfloat16>(bfloat16_bits(static_cast<float>(x)));
  } else {
    return static_cast<T>(x);
  }
}

// Calls visit(T{}) with the lane type; sub-byte integers are (u)int8_t with the value in range. Throws
// Error(kUnsupported) for types that nothing computes in (8-bit floats, complex numbers, strings).
template <typename Visit>
decltype(auto) with_lanes(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::kFloat32:
      return visit(float{});
    case DType::kFloat16:
      return visit(Eigen::half{});
    case DType::kBFloat16:
      return visit(Eigen::bfloat16{});
    case DType::kFloat64:
      return visit(double{});
    case DType::kInt2:
    case DType::kInt4:
    case DType::kInt8:
      return visit(int8_t{});
    case DType::kUint2:
    case DType::kUint4:
    case DType::kUint8:
      return visit(uint8_t{});
    case DType::kInt16:
      return visit(int16_t{});
    case DType::kUint16:
      return visit(uint16_t{});
    case DType::kInt32:
      return visit(int32_t{});
    case DType::kUint32:
      return visit(uint32_t{});
    case DType::kInt64:
      return visit(int64_t{});
    case DType::kUint64:
      return visit(uint64_t{});
    case DType::kBool:
      return visit(bool{});
    default:
      throw Error(Code::kUnsupported, "no arithmetic on elements of type " + std::string(dtype_name(dtype)));
  }
}

// The low `bits` (1 to 8) of a lane, sign-extended for signed types.
template <typename T>
T wrapped(T lane, int bits) {
  auto shifted = static_cast<uint8_t>(static_cast<uint8_t>(lane) << (8 - bits));
  return static_cast<T>(static_cast<T>(shifted) >> (8 - bits));
}

}  // namespace lowtide::stream
