// SPDX-License-Identifier: Apache-2.0
// In TFLite each output is a tensor of its own that an op makes. ONNX allows an output that is an input, a constant, or
// another output.
#pragma once

#include "layout/core/graph.h"

namespace lowtide::layout {

// Copies (by a RESHAPE to the same shape) every output that no op makes, that is an output already, or that is a
// constant behind a DEQUANTIZE, and names the outputs' values as ONNX does. Graphs other than the main one may give
// constants, and inputs at their own position.
void separate_outputs(core::Graph& graph, bool is_main);

}  // namespace lowtide::layout
