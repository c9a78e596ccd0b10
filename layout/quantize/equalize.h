// SPDX-License-Identifier: Apache-2.0
// Channels between two convolutions are scaled so that one grid serves all of them: w1 / s, b1 / s, w2 * s. The network
// stays the same, since nothing, or a ReLU, stands between, and neither depends on the scale.
#pragma once

#include "layout/quantize/calibrated.h"
#include "stream/progress.h"

namespace lowtide::layout {

// Changes weights and biases of pairs of convolutions in the graph, and ranges and means of the tensors between them.
// Weights are read once, for their largest magnitudes; what is changed of them is a step of their recipes.
void equalize(Graph& graph, Calibrated& calibrated, stream::Progress* progress);

// Names of the tensors between them become NAME/scaled: a name of ONNX says that a tensor has that value, which tools
// compare. After the last use of ranges, which are by name.
void name_scaled(Graph& graph, const Calibrated& calibrated);

}  // namespace lowtide::layout
