// SPDX-License-Identifier: Apache-2.0
// Names of tensors: unique and never empty, because users and tools find tensors by them.
#pragma once

#include <string>
#include <vector>

#include "layout/core/graph.h"

namespace lowtide::emit {

// One name for each value of the graph. Inputs and outputs keep ONNX's names exactly; the others have their own, or
// one made from the ONNX node that they come from, with a number where that is taken.
std::vector<std::string> tensor_names(const core::Graph& graph);

}  // namespace lowtide::emit
