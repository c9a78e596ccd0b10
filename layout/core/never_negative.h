// SPDX-License-Identifier: Apache-2.0
// Which values have no negative numbers, by the ops that make them.
#pragma once

#include "layout/core/graph.h"

namespace lowtide::core {

// Whether a RELU or another such function makes the value, alone or fused into another op; also behind ops that choose,
// move or average elements. Image ops may be in ONNX's axis order. False where it is not known.
bool is_never_negative(const Graph& graph, ValueId id);

}  // namespace lowtide::core
