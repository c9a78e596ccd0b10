// SPDX-License-Identifier: Apache-2.0
#include "stream/tflite/dtype.h"

#include <array>

namespace lowtide::stream {
namespace {

using tflite::TensorType;
struct Row {
  DType dtype;
  TensorType type;
};
constexpr std::array kRows = {
    Row{DType::kFloat32, TensorType::FLOAT32},
    Row{DType::kFloat16, TensorType::FLOAT16},
    Row{DType::kBFloat16, TensorType::BFLOAT16},
    Row{DType::kFloat64, TensorType::FLOAT64},
    Row{DType::kInt2, TensorType::INT2},
    Row{DType::kInt4, TensorType::INT4},
    Row{DType::kUint4, TensorType::UINT4},
    Row{DType::kInt8, TensorType::INT8},
    Row{DType::kUint8, TensorType::UINT8},
    Row{DType::kInt16, TensorType::INT16},
    Row{DType::kUint16, TensorType::UINT16},
    Row{DType::kInt32, TensorType::INT32},
    Row{DType::kUint32, TensorType::UINT32},
    Row{DType::kInt64, TensorType::INT64},
    Row{DType::kUint64, TensorType::UINT64},
    Row{DType::kBool, TensorType::BOOL},
    Row{DType::kString, TensorType::STRING},
    Row{DType::kComplex64, TensorType::COMPLEX64},
    Row{DType::kComplex128, TensorType::COMPLEX128},
    Row{DType::kFloat8E4M3FN, TensorType::FLOAT8_E4M3FN},
    Row{DType::kFloat8E5M2, TensorType::FLOAT8_E5M2},
};

}  // namespace

std::optional<TensorType> tensor_type(DType dtype) {
  for (const Row& row : kRows)
    if (row.dtype == dtype) return row.type;
  return std::nullopt;
}

DType dtype_of(TensorType type) {
  for (const Row& row : kRows)
    if (row.type == type) return row.dtype;
  return DType::kUndefined;
}

}  // namespace lowtide::stream
