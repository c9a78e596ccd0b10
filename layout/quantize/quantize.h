// SPDX-License-Identifier: Apache-2.0
// Draws DEQUANTIZE -> op -> QUANTIZE together into ops on integers, where LiteRT has a kernel that is right for the
// model's scales and zero points, which stay as they are. What has none stays float between a DEQUANTIZE and a
// QUANTIZE.
#pragma once

#include <string>
#include <vector>

#include "layout/core/graph.h"

namespace lowtide::layout {

// An op that stays float although its data comes from integers.
struct FloatIsland {
  std::string node;  // the ONNX node's name
  std::string op;    // "LOGISTIC"
  std::string reason;
};

// Run when axis orders are settled and ops are fused. `is_main`: the inputs and outputs are those of the model, and may
// get scales.
std::vector<FloatIsland> quantize(core::Graph& graph, bool is_main);

}  // namespace lowtide::layout
