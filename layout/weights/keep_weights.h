// SPDX-License-Identifier: Apache-2.0
// Spares weights a change, so that more of them can stay in the file that they lie in (--weights in-place).
//
//     FULLY_CONNECTED(x, W transposed, bias)   ->   ADD(BATCH_MATMUL(x, W), bias)
//
// The other weights that kernels want in another order, those of spatial convolutions, have no such form.
#pragma once

#include "layout/core/graph.h"

namespace lowtide::layout {

// After fusing, which decides what becomes of a weight, and before legalise.
void keep_weights(core::Graph& graph);

}  // namespace lowtide::layout
