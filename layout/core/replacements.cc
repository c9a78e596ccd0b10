// SPDX-License-Identifier: Apache-2.0
#include "layout/core/replacements.h"

#include <algorithm>
#include <utility>

namespace lowtide::core {

void Replacements::note(ValueId from, ValueId to) {
  const auto at = static_cast<size_t>(from);
  if (at >= instead_.size()) instead_.resize(std::max(at + 1, graph_.values.size()), kAbsent);
  instead_[at] = to;
}

ValueId Replacements::now(ValueId id) const {
  while (id != kAbsent && static_cast<size_t>(id) < instead_.size() && instead_[static_cast<size_t>(id)] != kAbsent)
    id = instead_[static_cast<size_t>(id)];
  return id;
}

Op Replacements::now(Op op) const {
  for (ValueId& in : op.inputs) in = now(in);
  return op;
}

void Replacements::apply() {
  // First each value is given the last one of its chain: otherwise every use would follow the chain.
  for (size_t i = 0; i < instead_.size(); ++i) {
    const ValueId last = now(static_cast<ValueId>(i));
    for (auto at = static_cast<ValueId>(i); at != last;) at = std::exchange(instead_[static_cast<size_t>(at)], last);
  }
  for (Op& op : graph_.ops)
    for (ValueId& in : op.inputs) in = now(in);
  for (ValueId& out : graph_.outputs) out = now(out);
}

}  // namespace lowtide::core
