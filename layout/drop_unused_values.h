// SPDX-License-Identifier: Apache-2.0
// Removes the values that no op, input or output of a graph refers to, to save memory. Values are renumbered: no pass
// may keep a ValueId across this.
#pragma once

#include "layout/core/graph.h"

namespace lowtide::layout {

// The graph must be tidy. The order of the remaining values stays.
void drop_unused_values(core::Graph& graph);

}  // namespace lowtide::layout
