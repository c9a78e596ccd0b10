// SPDX-License-Identifier: Apache-2.0
// ERF is computed by no kernel. It exists between lowering and here, because patterns (GELU) are found in it that could
// not be found in what it expands to.
#pragma once

#include "layout/core/graph.h"

namespace lowtide::layout {

// Writes each ERF that is left with TFLite's builtins.
void expand_erf(core::Graph& graph);

}  // namespace lowtide::layout
