// SPDX-License-Identifier: Apache-2.0
// The element type of a quantized model's inputs and outputs.
#pragma once

#include "layout/core/graph.h"

namespace lowtide::layout {

// Gives the inputs and outputs that are quantized the type `wanted`: i8, u8 (with the model's scales) or f32. QUANTIZE
// of an input and DEQUANTIZE to an output go, or come, or only shift. Integer inputs and outputs without scales, such
// as indices, stay. Throws Error(kUsage) for a float input or output that is not quantized when integers are wanted.
void set_border_types(core::Graph& graph, core::DType wanted);

}  // namespace lowtide::layout
