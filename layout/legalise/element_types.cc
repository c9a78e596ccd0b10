// SPDX-License-Identifier: Apache-2.0
#include "layout/legalise/element_types.h"

#include <array>
#include <span>

#include "layout/core/builtin.h"
#include "layout/core/kernel_limits.h"

namespace lowtide::layout {

using core::DType;
using core::Kind;
using core::Numbers;

namespace {

// Types to try, the best first. Integers computed in a wider type and cast back wrap as ONNX's do: sums, differences,
// products, and what is made of them; of quotients, remainders, extremes, absolute values the wide result fits.
std::span<const DType> candidates(DType dtype) {
  static constexpr std::array kNarrowInt = {DType::kInt32, DType::kInt64};
  static constexpr std::array kU32 = {DType::kInt64, DType::kInt32};
  static constexpr std::array kI64 = {DType::kInt32};
  static constexpr std::array kFloat = {DType::kFloat32};
  static constexpr std::array kBool = {DType::kInt8, DType::kUint8, DType::kInt32};
  switch (dtype) {
    case DType::kInt8:
    case DType::kUint8:
    case DType::kInt16:
    case DType::kUint16:
      return kNarrowInt;
    case DType::kUint32:
      return kU32;
    case DType::kInt64:
      return kI64;
    // CAST makes no other integers of those of 4 bits.
    case DType::kInt4:
    case DType::kUint4:
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat64:
      return kFloat;
    case DType::kBool:
      return kBool;
    default:
      return {};
  }
}

}  // namespace

std::optional<ComputeType> compute_type(Kind kind, DType dtype) {
  if (core::kernel_takes(kind, dtype)) return ComputeType{dtype};
  const Numbers numbers = core::builtin(kind).numbers;
  if (dtype == DType::kUint64) {
    if (!core::kernel_takes(kind, DType::kInt64) || numbers == Numbers::kComputed) return std::nullopt;
    return ComputeType{DType::kInt64, numbers == Numbers::kOrdered ? Passage::kOrdered : Passage::kBits};
  }
  // A bool is 0 or 1 in any type only where nothing is computed. What is computed of integers of 4 bits wraps, which
  // floats do not.
  if (dtype == DType::kBool && numbers != Numbers::kMoved) return std::nullopt;
  const bool has_4_bits = dtype == DType::kInt4 || dtype == DType::kUint4;
  const bool may_be_floats = numbers == Numbers::kMoved || numbers == Numbers::kOrdered || kind == Kind::kShape;
  if (has_4_bits && !may_be_floats) return std::nullopt;
  for (DType other : candidates(dtype))
    if (core::kernel_takes(kind, other)) return ComputeType{other};
  return std::nullopt;
}

bool is_exact(DType from, DType to) {
  if (from == to) return true;
  if (from == DType::kBool) return to != DType::kBool;
  const bool from_float = stream::is_float(from), to_float = stream::is_float(to);
  if (from_float && to_float) return to == DType::kFloat64 || (to == DType::kFloat32 && from != DType::kFloat64);
  if (from_float || to_float || !stream::is_integer(from) || !stream::is_integer(to)) return false;
  if (stream::is_signed_int(from) == stream::is_signed_int(to)) return stream::bits(to) > stream::bits(from);
  return stream::is_signed_int(to) && stream::bits(to) > stream::bits(from);
}

}  // namespace lowtide::layout
