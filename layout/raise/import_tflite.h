// SPDX-License-Identifier: Apache-2.0
// A TFLite model as a core graph: TFLite's graph is one already, so operators stay as they are. Types and shapes of
// results are inferred again by the operators' rows. Types must be those of the file. Shapes of the file that differ
// are not used, as in LiteRT, and a note says so.
//
// The trap: rows infer the types of numbers, not of the integers that stand for them. While an operator is inferred,
// its quantized inputs count as f32.
#pragma once

#include <string>
#include <vector>

#include "layout/core/graph.h"
#include "layout/raise/import_options.h"
#include "layout/raise/import_values.h"
#include "stream/error.h"
#include "stream/tflite/model.h"

namespace lowtide::layout {

struct ImportedTflite {
  std::vector<RaisedState> states;
  std::vector<std::string> notes;  // what the user should know of the file
};

// Makes graph 0 of `out` of the model's main subgraph, which is that of its signature, and one more for each graph that
// IF or WHILE runs. Origins are labelled with the number of the operator and its first output ("12: y", and "7.12: y"
// in a subgraph that operator 7 calls). STABLEHLO_COMPOSITE is replaced by its decomposition. A variable becomes an
// input, and an output "NAME_out" where the model assigns it. Custom operators of `options.kept` stay what they are.
// Operators that have no form in ONNX are left out and added to `refused`. Throws Error(kMalformed) for operators whose
// inputs or options contradict each other, Error(kUsage) for options that do not fit the model, and Unsupported for
// models with several signatures of which none is named.
ImportedTflite import_tflite(const tfl::Model& model, core::Model& out, const ImportOptions& options,
                             std::vector<stream::Unsupported>& refused);

}  // namespace lowtide::layout
