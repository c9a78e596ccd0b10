// SPDX-License-Identifier: Apache-2.0
// Merges equal constants, and equal ops with the same inputs.
#pragma once

#include "layout/core/graph.h"

namespace lowtide::layout {

// Constants are compared by their recipes, and weights of the same length by their bytes (stream/recipe/recipe_key.h).
// Ops with subgraphs and custom ops are not merged.
void merge_equal(core::Graph& graph);

}  // namespace lowtide::layout
