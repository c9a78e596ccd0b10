// SPDX-License-Identifier: Apache-2.0
// Values that no op and no border of a graph refers to any more leave it, so that memory goes with what a graph has and
// not with what it had. Values are numbered anew: no pass may hold a number across this.
#pragma once

#include "layout/core/graph.h"

namespace lowtide::layout {

// Of a tidy graph. What is left keeps its sequence.
void drop_unused_values(core::Graph& graph);

}  // namespace lowtide::layout
