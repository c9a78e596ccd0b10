// SPDX-License-Identifier: Apache-2.0
#include "layout/fuse/fuse.h"

#include <array>
#include <map>
#include <span>
#include <vector>

#include "layout/fuse/rewriter.h"
#include "layout/fuse/rules.h"

namespace lowtide::layout {

void fuse(core::Graph& graph) {
  graph.tidy();
  std::map<Kind, std::vector<Rule>> rules;
  for (std::span<const FuseRule> family :
       {gelu_rules(), hard_swish_rules(), transpose_rules(), matmul_rules(), pixel_shuffle_rules(), reshape_rules(),
        lead_axes_rules(), merged_axes_rules(), pad_rules(), repeat_rules(), scale_rules(), affine_rules(),
        activation_rules()})
    for (const FuseRule& row : family) rules[row.kind].push_back(row.rule);
  Rewriter rewriter(graph);
  bool changed = true;
  while (changed) {
    changed = false;
    // Ops that rules add are visited at the end of the same sweep.
    for (OpId id = 0; id < static_cast<OpId>(graph.ops.size()); ++id) {
      auto found = rules.find(rewriter.op(id).kind);
      if (found == rules.end()) continue;
      for (Rule rule : found->second) {
        if (rewriter.op(id).kind == Kind::kDead) break;
        if (!rule(rewriter, id)) continue;
        rewriter.note_new_ops();
        changed = true;
      }
    }
  }
  graph.tidy();
}

}  // namespace lowtide::layout
