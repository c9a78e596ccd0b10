// SPDX-License-Identifier: Apache-2.0
// A TFLite model as a core graph: TFLite's graph is one already, so operators stay as they are. Types and shapes are
// inferred again by the operators' rows and compared with the file's: a file whose shapes are wrong is refused here.
//
// The trap: rows infer the types of numbers, not of the integers that stand for them. While an operator is inferred,
// its quantized inputs count as f32.
#pragma once

#include <vector>

#include "layout/core/graph.h"
#include "stream/error.h"
#include "stream/tflite/model.h"

namespace lowtide::layout {

// Makes graph 0 of `out` of the model's main subgraph, which is that of its signature. Origins are labelled with the
// number of the operator and its first output ("12: y"). STABLEHLO_COMPOSITE is replaced by its decomposition.
// Operators that have no form in ONNX are left out and added to `refused`. Throws Error(kMalformed) for operators whose
// inputs, options or shapes contradict each other, and Unsupported for models with several signatures.
void import_tflite(const tfl::Model& model, core::Model& out, std::vector<stream::Unsupported>& refused);

}  // namespace lowtide::layout
