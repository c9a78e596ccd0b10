// SPDX-License-Identifier: Apache-2.0
// Options tables of TFLite operators as lists of named values, by the reflection tables that the schema compiler
// generates: the reader needs no list of options tables.
#pragma once

#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "stream/tflite/flatbuffer_view.h"
#include "stream/tflite/model.h"

namespace lowtide::stream {

// By options table, the options that an operator had last.
using LastOptions = std::map<std::string_view, std::shared_ptr<const std::vector<tfl::Option>>>;

// Fills op.options_table and op.options, which are those of `last` where they are equal. `from` is a tflite::Operator.
// Throws Error(kMalformed).
void read_options(const TableView& from, LastOptions& last, tfl::Operator& op);

}  // namespace lowtide::stream
