// SPDX-License-Identifier: Apache-2.0
#include "stream/dtype.h"

#include <array>

#include "stream/shape.h"

namespace lowtide::stream {
namespace {

enum class Class : uint8_t { kFloat, kSigned, kUnsigned, kOther };
struct DTypeRow {
  DType dtype;
  std::string_view name;
  int bits;
  Class kind;
};
constexpr std::array kDTypeRows = {
    DTypeRow{DType::kFloat32, "f32", 32, Class::kFloat},
    DTypeRow{DType::kFloat16, "f16", 16, Class::kFloat},
    DTypeRow{DType::kBFloat16, "bf16", 16, Class::kFloat},
    DTypeRow{DType::kFloat64, "f64", 64, Class::kFloat},
    DTypeRow{DType::kInt2, "i2", 2, Class::kSigned},
    DTypeRow{DType::kUint2, "u2", 2, Class::kUnsigned},
    DTypeRow{DType::kInt4, "i4", 4, Class::kSigned},
    DTypeRow{DType::kUint4, "u4", 4, Class::kUnsigned},
    DTypeRow{DType::kInt8, "i8", 8, Class::kSigned},
    DTypeRow{DType::kUint8, "u8", 8, Class::kUnsigned},
    DTypeRow{DType::kInt16, "i16", 16, Class::kSigned},
    DTypeRow{DType::kUint16, "u16", 16, Class::kUnsigned},
    DTypeRow{DType::kInt32, "i32", 32, Class::kSigned},
    DTypeRow{DType::kUint32, "u32", 32, Class::kUnsigned},
    DTypeRow{DType::kInt64, "i64", 64, Class::kSigned},
    DTypeRow{DType::kUint64, "u64", 64, Class::kUnsigned},
    DTypeRow{DType::kBool, "bool", 8, Class::kOther},
    DTypeRow{DType::kString, "string", 0, Class::kOther},
    DTypeRow{DType::kComplex64, "c64", 64, Class::kOther},
    DTypeRow{DType::kComplex128, "c128", 128, Class::kOther},
    DTypeRow{DType::kFloat8E4M3FN, "f8e4m3fn", 8, Class::kOther},
    DTypeRow{DType::kFloat8E4M3FNUZ, "f8e4m3fnuz", 8, Class::kOther},
    DTypeRow{DType::kFloat8E5M2, "f8e5m2", 8, Class::kOther},
    DTypeRow{DType::kFloat8E5M2FNUZ, "f8e5m2fnuz", 8, Class::kOther},
    DTypeRow{DType::kFloat8E8M0, "f8e8m0", 8, Class::kOther},
    DTypeRow{DType::kFloat4E2M1, "f4e2m1", 4, Class::kOther},
    DTypeRow{DType::kUndefined, "undefined", 0, Class::kOther},
};
static_assert(
    [] {
      for (size_t i = 0; i < kDTypeRows.size(); ++i)
        if (static_cast<size_t>(kDTypeRows[i].dtype) != i) return false;
      return true;
    }(),
    "kDTypeRows is indexed by DType");

const DTypeRow& row(DType dtype) { return kDTypeRows[static_cast<size_t>(dtype)]; }

}  // namespace

int bits(DType dtype) { return row(dtype).bits; }
int lane_bytes(DType dtype) { return (row(dtype).bits + 7) / 8; }
uint64_t file_bytes(DType dtype, uint64_t elements) {
  return checked_add(checked_mul(elements, static_cast<uint64_t>(bits(dtype))), 7) / 8;
}
std::string_view dtype_name(DType dtype) { return row(dtype).name; }
bool is_float(DType dtype) { return row(dtype).kind == Class::kFloat; }
bool is_signed_int(DType dtype) { return row(dtype).kind == Class::kSigned; }
bool is_integer(DType dtype) { return is_signed_int(dtype) || row(dtype).kind == Class::kUnsigned; }

}  // namespace lowtide::stream
