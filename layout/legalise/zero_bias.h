// SPDX-License-Identifier: Apache-2.0
// Kernels that require a bias get one of zeros.
#pragma once

#include "layout/core/graph.h"

namespace lowtide::layout {

// Gives each op whose kernel requires a bias (core::Weights::requires_bias) and that has none one of zeros. Runs when
// no pass can make a better one any more.
void add_zero_biases(core::Graph& graph);

}  // namespace lowtide::layout
