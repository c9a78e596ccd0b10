// SPDX-License-Identifier: Apache-2.0
// Element types of tensors, common to both formats. The trap: 4-bit types are packed two to a byte in files (low
// nibble first, in ONNX and TFLite alike), but while a recipe runs every element has a lane of its own: one byte.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lowtide::stream {

enum class DType : uint8_t {
  kFloat32,
  kFloat16,
  kBFloat16,
  kFloat64,
  kInt2,
  kUint2,
  kInt4,
  kUint4,
  kInt8,
  kUint8,
  kInt16,
  kUint16,
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kBool,
  kString,
  kComplex64,
  kComplex128,
  kFloat8E4M3FN,
  kFloat8E4M3FNUZ,
  kFloat8E5M2,
  kFloat8E5M2FNUZ,
  kFloat8E8M0,
  kFloat4E2M1,
  kUndefined,
};

// Bits of one element in a file: 2, 4, 8 .. 128; 0 for strings, which have no fixed size.
int bits(DType dtype);
// Bytes of one element while a recipe runs: as in the file, but 1 for the 2-bit and 4-bit types. 0 for strings.
int lane_bytes(DType dtype);
// Bytes of `elements` in a file, packed types rounded up to a whole byte. Throws Error(kMalformed) on overflow.
uint64_t file_bytes(DType dtype, uint64_t elements);
// A TensorProto.DataType of ONNX, as attributes and tensors name it; nullopt when it is not known. Defined beside the
// reader, where the format's numbers are.
std::optional<DType> onnx_dtype(int64_t number);
// "f32", "i64", "bool", ...: the names of listings and messages.
std::string_view dtype_name(DType dtype);

bool is_float(DType dtype);       // f32, f16, bf16, f64 (not the 8-bit and 4-bit floats: no kernel computes in them)
bool is_signed_int(DType dtype);  // i2 .. i64
bool is_integer(DType dtype);     // signed and unsigned, not bool

}  // namespace lowtide::stream
