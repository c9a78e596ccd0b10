// SPDX-License-Identifier: Apache-2.0
#include "layout/check_run_time_dims.h"

#include <algorithm>

#include "layout/core/builtin.h"
#include "layout/core/dim_requirements.h"
#include "stream/error.h"

namespace lowtide::layout {
namespace {

using core::Kind;

bool has_symbols(const core::Graph& graph, const core::Op& op) {
  return std::any_of(op.inputs.begin(), op.inputs.end(),
                     [&](core::ValueId id) { return id != core::kAbsent && !stream::is_static(graph.at(id).shape); });
}

}  // namespace

void check_run_time_dims(core::Graph& graph) {
  core::DimRequirements requirements(graph);
  for (const core::Op& op : graph.ops) {
    requirements.begin(op);
    if (op.kind == Kind::kReshape)
      requirements.same_elements(graph.at(op.inputs[0]).shape, graph.at(op.outputs[0]).shape);
    if (!core::is_inferred(op) || !has_symbols(graph, op)) continue;
    // Inferring the types again goes through all that the operator requires of its inputs.
    core::OpView view{graph, op.kind, op.inputs, op.options, static_cast<int>(op.outputs.size())};
    view.requirements = &requirements;
    try {
      core::builtin(op.kind).infer(view);
    } catch (stream::Error& error) {
      error.add_place({.node = graph.origins[op.origin]});
      throw;
    }
  }
  requirements.check();
}

}  // namespace lowtide::layout
