// SPDX-License-Identifier: Apache-2.0
// The order in which nodes are lowered. ONNX requires topological order; some files do not keep it.
#pragma once

#include <string>
#include <vector>

#include "stream/onnx/model.h"

namespace lowtide::layout {

// The nodes of the graph so that each stands behind those whose outputs it uses, in its subgraphs too; otherwise in the
// order of the file. Throws Error(kMalformed) for a cycle.
std::vector<const onnx::Node*> in_order(const onnx::Graph& graph);

// "Conv", "com.microsoft.Gelu".
std::string full_name(const onnx::Node& node);

}  // namespace lowtide::layout
