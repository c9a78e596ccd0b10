// SPDX-License-Identifier: Apache-2.0
// Decides, for every value at once, in which axis order it is stored, so that the bytes transposed at run time are the
// fewest possible (design.md section 4; docs/layouts.md explains it with pictures).
#pragma once

#include "layout/core/graph.h"

namespace lowtide::layout {

// Rewrites the graph in place: ops move to other axis orders (their options and constants with them), TRANSPOSE ops
// vanish, stay, or turn into RESHAPE where they move no bytes. The result computes the same.
void settle_layouts(core::Graph& graph);

// Bytes that the graph's TRANSPOSE ops move at run time, as settle_layouts counts them: equal ones once.
uint64_t transposed_cost(core::Graph& graph);

}  // namespace lowtide::layout
