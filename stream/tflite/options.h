// SPDX-License-Identifier: Apache-2.0
// Options tables of TFLite operators as lists of named values, by the reflection tables that the schema compiler
// generates: the reader needs no list of options tables.
#pragma once

#include "stream/tflite/flatbuffer_view.h"
#include "stream/tflite/model.h"

namespace lowtide::stream {

// Fills op.options_table and op.options. `from` is a tflite::Operator. Throws Error(kMalformed).
void read_options(const TableView& from, tfl::Operator& op);

}  // namespace lowtide::stream
