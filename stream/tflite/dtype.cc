// SPDX-License-Identifier: Apache-2.0
#include "stream/tflite/dtype.h"

#include <array>

namespace lowtide::stream {
namespace {

using tflite::TensorType;
struct TensorTypeRow {
  DType dtype;
  TensorType type;
};
constexpr std::array kTensorTypeRows = {
    TensorTypeRow{DType::kFloat32, TensorType::FLOAT32},
    TensorTypeRow{DType::kFloat16, TensorType::FLOAT16},
    TensorTypeRow{DType::kBFloat16, TensorType::BFLOAT16},
    TensorTypeRow{DType::kFloat64, TensorType::FLOAT64},
    TensorTypeRow{DType::kInt2, TensorType::INT2},
    TensorTypeRow{DType::kInt4, TensorType::INT4},
    TensorTypeRow{DType::kUint4, TensorType::UINT4},
    TensorTypeRow{DType::kInt8, TensorType::INT8},
    TensorTypeRow{DType::kUint8, TensorType::UINT8},
    TensorTypeRow{DType::kInt16, TensorType::INT16},
    TensorTypeRow{DType::kUint16, TensorType::UINT16},
    TensorTypeRow{DType::kInt32, TensorType::INT32},
    TensorTypeRow{DType::kUint32, TensorType::UINT32},
    TensorTypeRow{DType::kInt64, TensorType::INT64},
    TensorTypeRow{DType::kUint64, TensorType::UINT64},
    TensorTypeRow{DType::kBool, TensorType::BOOL},
    TensorTypeRow{DType::kString, TensorType::STRING},
    TensorTypeRow{DType::kComplex64, TensorType::COMPLEX64},
    TensorTypeRow{DType::kComplex128, TensorType::COMPLEX128},
    TensorTypeRow{DType::kFloat8E4M3FN, TensorType::FLOAT8_E4M3FN},
    TensorTypeRow{DType::kFloat8E5M2, TensorType::FLOAT8_E5M2},
};

}  // namespace

std::optional<TensorType> tensor_type(DType dtype) {
  for (const TensorTypeRow& row : kTensorTypeRows)
    if (row.dtype == dtype) return row.type;
  return std::nullopt;
}

DType dtype_of(TensorType type) {
  for (const TensorTypeRow& row : kTensorTypeRows)
    if (row.type == type) return row.dtype;
  return DType::kUndefined;
}

}  // namespace lowtide::stream
