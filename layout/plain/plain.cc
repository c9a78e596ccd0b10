// SPDX-License-Identifier: Apache-2.0
#include "layout/plain/plain.h"

#include <algorithm>
#include <map>
#include <vector>

#include "layout/plain/rules.h"

namespace lowtide::layout {

bool can_reshape_to(const core::Shape& shape) {
  return std::count_if(shape.begin(), shape.end(), core::is_symbol) <= 1;
}

bool is_float(Rewriter& rewriter, ValueId id) {
  return rewriter.value(id).dtype == core::DType::kFloat32 && !rewriter.value(id).quantization;
}

void replace_result(Rewriter& rewriter, ValueId old, Val made) {
  rewriter.note_new_ops();
  if (!rewriter.value(made.id).is_constant()) {
    rewriter.graph.at(made.id).shape = rewriter.value(old).shape;
    rewriter.graph.at(made.id).quantization = rewriter.value(old).quantization;
  }
  rewriter.replace(old, made.id);
}

void plain_forms(core::Graph& graph) {
  std::map<Kind, std::vector<Rule>> rules;
  for (std::span<const PlainRule> family : {look_up_rules(), tile_rules(), reverse_rules(), fold_rules(), mean_rules()})
    for (const PlainRule& row : family) rules[row.kind].push_back(row.rule);
  core::apply_rules(graph, [&](Kind kind) {
    auto found = rules.find(kind);
    return found == rules.end() ? std::span<const Rule>() : std::span<const Rule>(found->second);
  });
}

}  // namespace lowtide::layout
