// SPDX-License-Identifier: Apache-2.0
#include "layout/legalise/element_types.h"

#include <array>
#include <span>

#include "layout/core/kernel_limits.h"
#include "layout/legalise/roles.h"

namespace lowtide::layout {

using core::DType;
using core::Kind;

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

// Modulo 2^64 these are the same for signed and unsigned numbers.
bool ignores_sign(Kind kind) {
  switch (kind) {
    case Kind::kAdd:
    case Kind::kSub:
    case Kind::kMul:
    case Kind::kSum:
    case Kind::kCumsum:
    case Kind::kReduceProd:
    case Kind::kEqual:
    case Kind::kNotEqual:
      return true;
    default:
      return only_moves(kind);
  }
}

bool asks_for_order_only(Kind kind) {
  switch (kind) {
    case Kind::kMaximum:
    case Kind::kMinimum:
    case Kind::kReduceMax:
    case Kind::kReduceMin:
    case Kind::kLess:
    case Kind::kLessEqual:
    case Kind::kGreater:
    case Kind::kGreaterEqual:
    case Kind::kTopkV2:
      return true;
    default:
      return false;
  }
}

// A bool is 0 or 1 in any type only where nothing is computed.
bool may_leave_bool(Kind kind) { return only_moves(kind); }

}  // namespace

std::optional<ComputeType> compute_type(Kind kind, DType dtype) {
  if (core::kernel_takes(kind, dtype)) return ComputeType{dtype};
  if (dtype == DType::kUint64) {
    if (!core::kernel_takes(kind, DType::kInt64)) return std::nullopt;
    if (ignores_sign(kind)) return ComputeType{DType::kInt64, Passage::kBits};
    if (asks_for_order_only(kind)) return ComputeType{DType::kInt64, Passage::kOrdered};
    return std::nullopt;
  }
  if (dtype == DType::kBool && !may_leave_bool(kind)) return std::nullopt;
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
