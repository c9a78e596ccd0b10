// SPDX-License-Identifier: Apache-2.0
#include "layout/legalise/outputs.h"

#include <algorithm>
#include <set>

#include "layout/core/builder.h"

namespace lowtide::layout {
namespace {

// XNNPACK takes the DEQUANTIZE of a constant for a weight of the ops that read it, and computes no output with it.
bool is_dequantized_constant(const core::Graph& graph, core::ValueId id) {
  const core::OpId producer = graph.at(id).producer;
  if (producer < 0) return false;
  const core::Op& op = graph.ops[static_cast<size_t>(producer)];
  return op.kind == core::Kind::kDequantize && graph.at(op.inputs[0]).is_constant();
}

}  // namespace

void separate_outputs(core::Graph& graph, bool is_main) {
  core::Builder builder(graph);
  std::set<core::ValueId> seen;
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    core::ValueId& output = graph.outputs[i];
    // Kernels of control flow copy the results of their graphs: constants, and state that a loop does not change.
    if (!is_main && graph.at(output).is_constant()) continue;
    if (!is_main && i < graph.inputs.size() && output == graph.inputs[i] && seen.insert(output).second) continue;
    const bool made =
        graph.at(output).producer >= 0 && !graph.at(output).is_constant() && !is_dequantized_constant(graph, output);
    if (!made || !seen.insert(output).second) {
      // Not Builder::reshape, which leaves out a reshape to the same shape.
      const core::Value source = graph.at(output);
      std::vector<int64_t> shape = source.shape;
      for (int64_t& dim : shape)
        if (core::is_symbol(dim)) dim = -1;
      core::Val target =
          std::count(shape.begin(), shape.end(), -1) <= 1 ? builder.i32(shape) : builder.dims(source.shape);
      core::Op copy{.kind = core::Kind::kReshape, .inputs = {output, target.id}};
      core::ValueId out = graph.add_value(source.dtype, source.shape);
      copy.outputs = {out};
      graph.at(out).quantization = source.quantization;
      graph.at(out).producer = static_cast<core::OpId>(graph.ops.size());
      graph.add_op(std::move(copy));
      graph.outputs[i] = out;
      seen.insert(out);
    }
  }
  // The names of outputs are the file's interface: another value of that name loses it.
  std::set<std::string> names(graph.output_names.begin(), graph.output_names.end());
  for (core::Value& value : graph.values)
    if (names.contains(value.name)) value.name.clear();
  for (size_t i = 0; i < graph.inputs.size(); ++i) graph.at(graph.inputs[i]).name = graph.input_names[i];
  for (size_t i = 0; i < graph.outputs.size(); ++i) graph.at(graph.outputs[i]).name = graph.output_names[i];
  graph.tidy();
}

}  // namespace lowtide::layout
