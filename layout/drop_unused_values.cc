// SPDX-License-Identifier: Apache-2.0
#include "layout/drop_unused_values.h"

#include <utility>

namespace lowtide::layout {

void drop_unused_values(core::Graph& graph) {
  std::vector<core::ValueId> number(graph.values.size(), core::kAbsent);
  auto each_use = [&](auto visit) {
    auto all = [&](std::vector<core::ValueId>& ids) {
      for (core::ValueId& id : ids)
        if (id != core::kAbsent) visit(id);
    };
    all(graph.inputs);
    all(graph.outputs);
    for (core::Op& op : graph.ops) {
      all(op.inputs);
      all(op.outputs);
    }
  };
  each_use([&](core::ValueId id) { number[static_cast<size_t>(id)] = id; });
  size_t kept = 0;
  for (size_t v = 0; v < number.size(); ++v) {
    if (number[v] == core::kAbsent) continue;
    if (kept != v) graph.values[kept] = std::move(graph.values[v]);
    number[v] = static_cast<core::ValueId>(kept++);
  }
  if (kept == graph.values.size()) return;
  graph.values.resize(kept);
  graph.values.shrink_to_fit();
  each_use([&](core::ValueId& id) { id = number[static_cast<size_t>(id)]; });
}

}  // namespace lowtide::layout
