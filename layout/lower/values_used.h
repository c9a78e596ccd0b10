// SPDX-License-Identifier: Apache-2.0
// The values that a node uses.
//
// The trap: the bodies of an If, Loop or Scan use values of the graphs around them without naming them as inputs.
#pragma once

#include <string_view>
#include <vector>

#include "stream/onnx/model.h"

namespace lowtide::layout {

// Appends the names of its inputs and of what its bodies use of the graph that the node is in. A name may come twice;
// none is empty. They refer to the strings of `node`.
void add_values_used(const onnx::Node& node, std::vector<std::string_view>& out);

}  // namespace lowtide::layout
