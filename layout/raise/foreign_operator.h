// SPDX-License-Identifier: Apache-2.0
// A custom operator that stays what it is: a node of a domain of its own (kept_operators.h), whose inputs and results
// are what the TFLite file stores, and whose attributes are the file's options.
#pragma once

#include <vector>

#include "layout/raise/raised_operator.h"
#include "stream/onnx/model.h"

namespace lowtide::layout {

struct ForeignOperator : RaisedOperator {
  std::vector<onnx::Attribute> options;
};

// A flexbuffer map of numbers, texts, and lists of one kind of these becomes an attribute for each entry; any other
// bytes become one attribute custom_options. Attributes are sorted by name. No bytes: none.
std::vector<onnx::Attribute> attributes_of_options(const std::vector<uint8_t>& bytes);

}  // namespace lowtide::layout
