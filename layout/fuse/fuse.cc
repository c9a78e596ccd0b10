// SPDX-License-Identifier: Apache-2.0
#include "layout/fuse/fuse.h"

#include <array>
#include <map>
#include <span>
#include <vector>

#include "layout/fuse/rules.h"

namespace lowtide::layout {

void fuse(core::Graph& graph) {
  std::map<Kind, std::vector<Rule>> rules;
  for (std::span<const FuseRule> family :
       {identity_rules(),      gelu_rules(),         hard_swish_rules(), split_heads_rules(),
        transpose_rules(),     flatten_rules(),      matmul_rules(),     grouped_queries_rules(),
        pixel_shuffle_rules(), reshape_rules(),      lead_axes_rules(),  merged_axes_rules(),
        pad_rules(),           repeat_rules(),       scale_rules(),      scale_upwards_rules(),
        affine_rules(),        small_factor_rules(), nan_guard_rules(),  reciprocal_root_rules(),
        negated_part_rules(),  prelu_rules(),        activation_rules()})
    for (const FuseRule& row : family) rules[row.kind].push_back(row.rule);
  core::apply_rules(graph, [&](Kind kind) {
    auto found = rules.find(kind);
    return found == rules.end() ? std::span<const Rule>() : std::span<const Rule>(found->second);
  });
}

}  // namespace lowtide::layout
