// SPDX-License-Identifier: Apache-2.0
// Kernels that insist on a bias get one of zeros.
#pragma once

#include "layout/core/graph.h"

namespace lowtide::layout {

// Gives CONV_2D and DEPTHWISE_CONV_2D without bias one of zeros: the first kernel refuses to run without, the second
// crashes (docs/kernels.md). For when no pass puts a better one there any more.
void add_zero_biases(core::Graph& graph);

}  // namespace lowtide::layout
