// SPDX-License-Identifier: Apache-2.0
// Names of tensors: unique and not empty, because users and tools refer to tensors by name.
#pragma once

#include <string>
#include <vector>

#include "layout/core/graph.h"

namespace lowtide::emit {

// One name for each value of the graph. Inputs and outputs keep ONNX's names exactly; the others have their ONNX name
// or one derived from their ONNX node, with a number appended if it is taken.
std::vector<std::string> tensor_names(const core::Graph& graph);
// The values that become tensors, in the order of the file: as the graph meets them. Those that nothing uses are left
// out.
std::vector<core::ValueId> tensor_order(const core::Graph& graph);

}  // namespace lowtide::emit
