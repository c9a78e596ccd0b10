// SPDX-License-Identifier: Apache-2.0
#include "layout/quantize/placed_products.h"

#include <set>

#include "layout/quantize/as_product.h"
#include "layout/quantize/known_ranges.h"

namespace lowtide::layout {

void PlacedProducts::write(const std::function<bool(ValueId)>& is_known, bool tables) {
  for (size_t i = 0; i < graph_.ops.size(); ++i) {
    const Op before = graph_.ops[i];
    const auto made = as_product(graph_, before, true);
    if (!made || !is_known(before.inputs[0]) || !is_known(before.outputs[0])) continue;
    if (tables && graph_.at(made->inputs[1]).constant->elements() == 1) continue;
    if (!integer_kernel_takes(graph_, *made, calibrated_.activations, false)) continue;
    graph_.ops[i] = *made;
    before_.emplace(static_cast<OpId>(i), before);
  }
}

std::vector<OpId> PlacedProducts::lone(const std::function<bool(OpId)>& computes,
                                       const std::function<ValueId(ValueId)>& group_of) const {
  // By group, how many ops in integers give a value of it, and how many read one.
  std::map<ValueId, int> given, read;
  if (calibrated_.only_integers) {
    for (const ValueId id : graph_.inputs) ++given[group_of(id)];
    for (const ValueId id : graph_.outputs) ++read[group_of(id)];
  }
  for (size_t i = 0; i < graph_.ops.size(); ++i) {
    if (!computes(static_cast<OpId>(i))) continue;
    for (const ValueId id : data_inputs(graph_, graph_.ops[i])) ++read[group_of(id)];
    for (const ValueId id : data_outputs(graph_, graph_.ops[i])) ++given[group_of(id)];
  }
  std::set<OpId> out;
  for (bool again = true; again;) {
    again = false;
    for (const auto& [id, before] : before_) {
      if (!computes(id) || out.contains(id)) continue;
      const ValueId data = group_of(before.inputs[0]), result = group_of(before.outputs[0]);
      const int own = data == result ? 1 : 0;
      if (given[data] > own && read[result] > own) continue;
      --read[data], --given[result];
      again = out.insert(id).second;
    }
  }
  return {out.begin(), out.end()};
}

void PlacedProducts::restore(const std::function<bool(OpId)>& computes) {
  for (const auto& [id, before] : before_)
    if (!computes(id)) graph_.ops[static_cast<size_t>(id)] = before;
}

}  // namespace lowtide::layout
