// SPDX-License-Identifier: Apache-2.0
// Masks of minus infinity survive additions.
//
// LiteRT's ADD and SUB clamp their results to the finite numbers (an activation of "none" is a clamp to +-3.4e38)
// unless XNNPACK computes them. Before a softmax that makes no difference, unless a whole row is infinite and its NaN
// is looked for; in an output of the graph it is a wrong number.
#pragma once

#include "layout/core/graph.h"

namespace lowtide::layout {

// Follows infinities from the graph's own constants to its outputs, and from constants and inputs (a mask that
// the application makes) to softmaxes whose result is tested for NaN, and puts them back by a SELECT_V2 after each ADD
// and SUB on the way. Infinities that are computed at run time are left to the kernels.
void keep_infinities(core::Graph& graph);

}  // namespace lowtide::layout
