// SPDX-License-Identifier: Apache-2.0
// The measured table (kernel_limits.inc) as an array indexed by the operator's code.
#include "layout/core/kernel_limits.h"

#include <array>
#include <cstddef>
#include <optional>

#include "schemas/tflite_generated.h"

namespace lowtide::core {
namespace {

// The rows name operators as the schema does; more were measured than are used.
using SchemaName = tflite::BuiltinOperator;

constexpr size_t kCodes = 256;
using Table = std::array<std::optional<KernelLimits>, kCodes>;

constexpr uint32_t bit(stream::DType dtype) { return uint32_t{1} << static_cast<unsigned>(dtype); }

constexpr Table make_table() {
  using stream::DType;
  // The names of types in the rows.
  [[maybe_unused]] constexpr uint32_t F32 = bit(DType::kFloat32), F16 = bit(DType::kFloat16),
                                      BF16 = bit(DType::kBFloat16), F64 = bit(DType::kFloat64), I4 = bit(DType::kInt4),
                                      I8 = bit(DType::kInt8), U8 = bit(DType::kUint8), I16 = bit(DType::kInt16),
                                      U16 = bit(DType::kUint16), I32 = bit(DType::kInt32), U32 = bit(DType::kUint32),
                                      I64 = bit(DType::kInt64), U64 = bit(DType::kUint64), BOOL = bit(DType::kBool),
                                      C64 = bit(DType::kComplex64), NONE = 0;
  Table table;
#define KERNEL(schema_name, types, min_rank, max_rank, broadcast_rank) \
  table[static_cast<size_t>(SchemaName::schema_name)] = KernelLimits{types, 0, 0, min_rank, max_rank, broadcast_rank};
#define QUANTIZED(schema_name, any_scales, same_scale)                         \
  table[static_cast<size_t>(SchemaName::schema_name)]->quantized = any_scales; \
  table[static_cast<size_t>(SchemaName::schema_name)]->one_scale = same_scale;
#include "layout/core/kernel_limits.inc"
#undef QUANTIZED
#undef KERNEL
  return table;
}

constexpr Table kTable = make_table();

}  // namespace

const KernelLimits* kernel_limits(Kind kind) {
  const auto code = static_cast<int16_t>(kind);
  if (code < 0 || static_cast<size_t>(code) >= kTable.size()) return nullptr;
  const auto& row = kTable[static_cast<size_t>(code)];
  return row ? &*row : nullptr;
}

bool kernel_takes(Kind kind, stream::DType dtype) {
  const KernelLimits* limits = kernel_limits(kind);
  return limits != nullptr && limits->takes(dtype);
}

bool keeps_bits(Kind kind, stream::DType dtype) {
  // Narrower numbers are all in some type that the kernel takes; u64 can pass as i64 (legalise/element_types.h).
  using stream::DType;
  return kernel_takes(kind, dtype) || (dtype == DType::kUint64 && kernel_takes(kind, DType::kInt64)) ||
         (dtype != DType::kInt64 && dtype != DType::kUint64 && dtype != DType::kFloat64);
}

}  // namespace lowtide::core
