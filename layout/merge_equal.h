// Equal constants become one, and ops that do the same to the same inputs become one.
#pragma once

#include "layout/core.h"

namespace lowtide::layout {

// Constants are compared by what their recipes do (stream/recipe_key.h), never read. Ops with subgraphs, custom and
// foreign ops are left alone.
void merge_equal(core::Graph& graph);

}  // namespace lowtide::layout
