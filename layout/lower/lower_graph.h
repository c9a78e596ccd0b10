// SPDX-License-Identifier: Apache-2.0
// Turns an ONNX graph into a core graph: every node through its row of the lowering table. Nodes that cannot be
// converted are gathered; nodes behind them are judged as far as their inputs' types are known.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "layout/core/graph.h"
#include "layout/lower/custom_operators.h"
#include "layout/lower/value_types.h"
#include "stream/error.h"
#include "stream/onnx/model.h"

namespace lowtide::layout {

struct LowerResult {
  std::vector<stream::Unsupported> refused;  // each with its node, operator and reason; empty = all lowered
  // Nodes that depend on a refused one, of which nothing can be said: node and operator. A node is refused only for
  // what is certain without the outputs of refused nodes, or with the types that the model declares of them.
  std::vector<stream::Where> not_judged;
  std::vector<std::string> notes;  // what is converted although the model's opset does not have it
  // Extents of outputs that are known only at run time and do not follow from the inputs, and what the model declares.
  std::map<core::Dim, core::Dim> declared_extents;
};

// Makes the graphs of `target`, the main one first, from `model`, whose functions must have been inlined. `shapes`
// overrides the shapes of inputs by name: dynamic dimensions, and the batch (batch_change.h). `custom` says which nodes
// become custom operators. `types`, if given, gets what is known of each value. `released`, if given, is the graph of
// `model`, whose nodes may lose their inputs and attributes as soon as they are lowered. Throws Error for a
// malformed model, an input without a usable shape, an unknown name in `shapes`.
LowerResult lower_graph(const onnx::Model& model, const std::map<std::string, core::Shape>& shapes,
                        const CustomChoice& custom, core::Model& target, ValueTypes* types = nullptr,
                        onnx::Graph* released = nullptr);

}  // namespace lowtide::layout
