// SPDX-License-Identifier: Apache-2.0
// Turns an ONNX graph into a core graph: every node through its row of the lowering table, unsupported ones gathered.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "layout/core/graph.h"
#include "stream/error.h"
#include "stream/onnx/model.h"

namespace lowtide::layout {

struct LowerResult {
  std::vector<stream::Unsupported> refused;  // each with its node, operator and reason; empty = all lowered
};

// Makes the graphs of `target`, the main one first, from `model`, whose functions must have been inlined. `shapes`
// overrides the shapes of inputs by name. Throws Error for a malformed model, an input without a usable shape, an
// unknown name in `shapes`.
LowerResult lower_graph(const onnx::Model& model, const std::map<std::string, core::Shape>& shapes,
                        core::Model& target);

}  // namespace lowtide::layout
