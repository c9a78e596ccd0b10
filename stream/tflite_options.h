// Options tables of TFLite operators as lists of named values, by the names that the schema compiler leaves in the
// program: so the reader needs no list of tables of its own.
#pragma once

#include "schemas/tflite_generated.h"
#include "stream/tflite_model.h"

namespace lowtide::stream {

// Fills op.options_table and op.options. The file must be verified.
void read_options(const tflite::Operator& from, tfl::Operator& op);

}  // namespace lowtide::stream
