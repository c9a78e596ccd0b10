// SPDX-License-Identifier: Apache-2.0
// From a DType to the C++ type of its lanes, for templates over element types.
#pragma once

#include <cstdint>
#include <string>

#include "stream/dtype.h"
#include "stream/error.h"
#include "stream/recipe/halves.h"

namespace lowtide::stream {

// Calls visit(T{}) with the lane type; sub-byte integers are (u)int8_t with the value in range. Throws
// Error(kUnsupported) for types that nothing computes in (8-bit floats, complex numbers, strings).
template <typename Visit>
decltype(auto) with_lanes(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::kFloat32:
      return visit(float{});
    case DType::kFloat16:
      return visit(Half{});
    case DType::kBFloat16:
      return visit(BFloat16{});
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
