// SPDX-License-Identifier: Apache-2.0
#include "layout/quantize/placed_grids.h"

#include <utility>

#include "layout/core/rewriter.h"
#include "layout/quantize/known_ranges.h"

namespace lowtide::layout {

void limit_far(core::Graph& graph, const PlacedGrids& placed) {
  std::set<ValueId> far = placed.far;
  if (far.empty()) return;
  core::Rewriter rewriter(graph);
  const size_t ops = graph.ops.size();
  for (size_t i = 0; i < ops; ++i) {
    const Op op = graph.ops[i];
    // What is chosen of them, in floats, may be quantized.
    if (chooses(op))
      for (const ValueId in : data_inputs(graph, op))
        if (far.contains(in))
          for (const ValueId out : data_outputs(graph, op)) far.insert(out);
    if (op.kind != Kind::kQuantize || !far.contains(op.inputs[0])) continue;
    const Interval ends = interval_of(*grid_of(graph.at(op.outputs[0])));
    core::Builder& b = rewriter.b;
    b.origin = op.origin;
    const core::Val x{op.inputs[0]};
    const core::Val limited = b.minimum(b.maximum(x, b.scalar_like(ends.low, x)), b.scalar_like(ends.high, x));
    rewriter.note_new_ops();
    rewriter.set_input(static_cast<OpId>(i), 0, limited.id);
  }
  graph.tidy();
}

void restore_floats(core::Graph& graph, const PlacedGrids& placed) {
  std::map<const stream::Recipe*, ValueId> made;
  for (size_t i = 0; i < graph.ops.size(); ++i)
    for (size_t slot = 0; slot < graph.ops[i].inputs.size(); ++slot) {
      const ValueId in = graph.ops[i].inputs[slot];
      if (in == core::kAbsent || !graph.at(in).is_constant()) continue;
      const stream::Recipe* recipe = graph.at(in).constant.get();
      const auto known = placed.floats.find(recipe);
      if (known == placed.floats.end()) continue;
      std::string name = graph.at(in).name;
      const auto [it, is_new] = made.try_emplace(recipe, core::kAbsent);
      if (is_new) it->second = graph.add_constant(known->second, std::move(name));
      graph.ops[i].inputs[slot] = it->second;
    }
  graph.tidy();
}

}  // namespace lowtide::layout
