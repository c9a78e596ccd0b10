// SPDX-License-Identifier: Apache-2.0
// Conversion between TFLite's element types and DType.
#pragma once

#include <optional>

#include "schemas/tflite_generated.h"
#include "stream/dtype.h"

namespace lowtide::stream {

// nullopt when TFLite has no such type.
std::optional<tflite::TensorType> tensor_type(DType dtype);
// kUndefined for types without numbers (RESOURCE, VARIANT) and for codes that are not in the schema.
DType dtype_of(tflite::TensorType type);

}  // namespace lowtide::stream
