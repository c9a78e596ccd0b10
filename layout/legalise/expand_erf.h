// SPDX-License-Identifier: Apache-2.0
// No kernel computes ERF. The op exists from lowering to here, because patterns with it (GELU) are fused in between.
#pragma once

#include "layout/core/graph.h"

namespace lowtide::layout {

// Replaces each ERF that is left by builtins.
void expand_erf(core::Graph& graph);

}  // namespace lowtide::layout
