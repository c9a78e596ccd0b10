// SPDX-License-Identifier: Apache-2.0
// Chooses the axis order of every value together, so that as few bytes as possible are transposed at run time.
// docs/layouts.md explains it.
#pragma once

#include "layout/core/graph.h"

namespace lowtide::layout {

// Rewrites the graph in place: ops get other axis orders (with their options and constants); TRANSPOSE ops are removed,
// kept, or replaced by RESHAPE where they move no bytes. The result computes the same.
void settle_layouts(core::Graph& graph);

}  // namespace lowtide::layout
