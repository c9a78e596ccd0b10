// SPDX-License-Identifier: Apache-2.0
// The options of a TFLite operator as the structs that the writer takes (layout/core/options.h): what emit/builtins/
// writes is what this reads.
//
// The trap: an operator of an untrusted file may have the table of another operator, none at all, or values that no
// enumerator has. Each is an error here, so that no function behind it gets them.
#pragma once

#include <vector>

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

// Whether the ends of a STRIDED_SLICE count from its begins.
bool has_offsets(const tfl::Operator& op);

// Of FAKE_QUANT.
struct FakeQuantFields {
  float min, max;
  int bits;
  bool is_narrow;
};
FakeQuantFields fake_quant_fields(const tfl::Operator& op);

// Of BUCKETIZE.
std::vector<float> bucket_boundaries(const tfl::Operator& op);

// Of pools, and the activation of L2_NORMALIZATION.
core::PoolOptions pool_fields(const tfl::Operator& op);
core::Activation l2_activation(const tfl::Operator& op);

}  // namespace lowtide::layout
