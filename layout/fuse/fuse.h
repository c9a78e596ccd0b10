// SPDX-License-Identifier: Apache-2.0
// Fuses ops into their neighbours: scales and shifts into weights and biases (as recipes), activations, pads, reshapes.
// What the kernels can do by themselves is no op of its own afterwards. docs/layouts.md says in which order it happens.
#pragma once

#include "layout/core/graph.h"

namespace lowtide::layout {

// Applies the rules until none applies. Run before settle_layouts (so that a convolution and what follows it have one
// axis order) and after it (for what became neighbours by it).
void fuse(core::Graph& graph);

}  // namespace lowtide::layout
