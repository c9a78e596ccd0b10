// SPDX-License-Identifier: Apache-2.0
// Options tables of TFLite operators as lists of named values, by the names that the schema compiler leaves in the
// program: so the reader needs no list of tables of its own.
#pragma once

#include "stream/tflite/flatbuffer_view.h"
#include "stream/tflite/model.h"

namespace lowtide::stream {

// Fills op.options_table and op.options. `from` is a tflite::Operator. Throws Error(kMalformed).
void read_options(const TableView& from, tfl::Operator& op);

}  // namespace lowtide::stream
