// SPDX-License-Identifier: Apache-2.0
// The options of a TFLite operator as the structs that the writer takes (layout/core/options.h): what emit/builtins/
// writes is what this reads.
//
// The trap: an operator of a stranger's file may have the table of another operator, none at all, or values that no
// enumerator has. Each is an error here, so that no function behind it sees them.
#pragma once

#include "layout/core/graph.h"
#include "stream/tflite/model.h"

namespace lowtide::layout {

// Kinds without a struct give NoOptions; the options of IF and WHILE are not read. Axes are as in the file, negative
// ones too. Throws Error(kMalformed) for a table that is not the operator's, and Unsupported for an option that the
// structs do not have.
core::Options read_builtin_options(core::Kind kind, const tfl::Operator& op);

// An option by its name in the schema, of an operator with or without a table; `otherwise` where it is absent. Throws
// Error(kMalformed) where it is no number that fits into an int32_t.
int int_option(const tfl::Operator& op, std::string_view name, int otherwise = 0);

}  // namespace lowtide::layout
