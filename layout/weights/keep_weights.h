// SPDX-License-Identifier: Apache-2.0
// Avoids changes of weights, so that more of them can stay in the file that they are in (--weights in-place).
//
//     FULLY_CONNECTED(x, W transposed, bias)   ->   ADD(BATCH_MATMUL(x, W), bias)
//
// Weights of spatial convolutions, which kernels read in another axis order than ONNX's, have no such form.
#pragma once

#include "layout/core/graph.h"

namespace lowtide::layout {

// Runs after fusing, which may change weights, and before legalise.
void keep_weights(core::Graph& graph);

}  // namespace lowtide::layout
