// SPDX-License-Identifier: Apache-2.0
// Element types of TFLite's tensors and ours.
#pragma once

#include <optional>

#include "schemas/tflite_generated.h"
#include "stream/dtype.h"

namespace lowtide::stream {

// nullopt: TFLite has no such type.
std::optional<tflite::TensorType> tensor_type(DType dtype);
// kUndefined for types that hold no numbers (RESOURCE, VARIANT) and for codes that the schema does not know.
DType dtype_of(tflite::TensorType type);

}  // namespace lowtide::stream
