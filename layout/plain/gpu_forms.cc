// SPDX-License-Identifier: Apache-2.0
#include "layout/plain/gpu_forms.h"

#include <map>
#include <vector>

#include "layout/plain/gpu_ids.h"
#include "layout/plain/gpu_rules.h"

namespace lowtide::layout {
namespace {

void apply_families(core::Graph& graph, std::initializer_list<std::span<const PlainRule>> families) {
  std::map<Kind, std::vector<Rule>> rules;
  for (std::span<const PlainRule> family : families)
    for (const PlainRule& row : family) rules[row.kind].push_back(row.rule);
  core::apply_rules(graph, [&](Kind kind) {
    auto found = rules.find(kind);
    return found == rules.end() ? std::span<const Rule>() : std::span<const Rule>(found->second);
  });
}

}  // namespace

std::vector<std::string> gpu_forms(core::Graph& graph) {
  apply_families(graph, {gpu_integer_pad_rules()});
  std::vector<std::string> narrowed = narrow_ids(graph);
  apply_families(graph, {gpu_transpose_rules(), gpu_pad_rules(), gpu_one_element_rules(), gpu_part_rules(),
                         gpu_update_rules(), gpu_product_rules(), gpu_math_rules(), gpu_sum_rules(),
                         gpu_reverse_rules(), gpu_constant_rules(), fold_rules()});
  return narrowed;
}

void pads_of_three_axes(core::Graph& graph) { apply_families(graph, {gpu_pad_rules()}); }
void at_least_one_axis(core::Graph& graph) { apply_families(graph, {gpu_one_element_rules()}); }

void gpu_outputs(core::Graph& graph) { apply_families(graph, {gpu_output_rules()}); }
void gpu_activations(core::Graph& graph) { apply_families(graph, {gpu_activation_rules()}); }
void gpu_selections(core::Graph& graph) { apply_families(graph, {gpu_select_rules(), gpu_constant_rules()}); }

}  // namespace lowtide::layout
