// SPDX-License-Identifier: Apache-2.0
// The options of an operator as they are in a file.
#pragma once

#include "schemas/tflite_generated.h"

namespace lowtide::emit {

// A table in the schema's union, or none.
struct OptionsTable {
  tflite::BuiltinOptions type = tflite::BuiltinOptions::NONE;
  flatbuffers::Offset<void> table;
};

}  // namespace lowtide::emit
