// SPDX-License-Identifier: Apache-2.0
// TFLite finds outputs by tensor: each needs a tensor of its own, made by an op. ONNX allows an output that is an
// input, a constant, or another output.
#pragma once

#include "layout/core/graph.h"

namespace lowtide::layout {

// Copies (by a RESHAPE to the same shape) every output that no op makes or that is listed before, and names the
// outputs' values as ONNX does. Other graphs than the main one may give constants, and inputs in
// their place.
void separate_outputs(core::Graph& graph, bool is_main);

}  // namespace lowtide::layout
