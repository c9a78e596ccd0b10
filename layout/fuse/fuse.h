// SPDX-License-Identifier: Apache-2.0
// Fuses ops into their neighbours: scales and shifts into weights and biases (as recipes), activations, pads, reshapes.
// docs/layouts.md describes the order of the passes.
#pragma once

#include "layout/core/graph.h"

namespace lowtide::layout {

// Applies the rules until none applies. Run before settle_layouts, so that a convolution and what is fused into it have
// the same axis order, and after it, for ops that have become neighbours.
void fuse(core::Graph& graph);

}  // namespace lowtide::layout
