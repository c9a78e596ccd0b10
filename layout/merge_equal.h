// SPDX-License-Identifier: Apache-2.0
// Equal constants become one, and ops that do the same to the same inputs become one.
#pragma once

#include "layout/core/graph.h"

namespace lowtide::layout {

// Constants are compared by what their recipes do, and weights of one length by their bytes
// (stream/recipe/recipe_key.h). Ops with subgraphs, custom and foreign ops are left alone.
void merge_equal(core::Graph& graph);

}  // namespace lowtide::layout
