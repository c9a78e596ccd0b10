// SPDX-License-Identifier: Apache-2.0
#include "layout/quantize/quantize.h"

#include <algorithm>
#include <array>

#include "layout/core/builtin.h"
#include "layout/quantize/rules.h"

namespace lowtide::layout {
namespace {

constexpr std::array kQuantizeRules = {Rule{join_quantize}, Rule{quantize_before_choice}, Rule{compute_in_integers}};
constexpr std::array kDequantizeRules = {Rule{join_dequantize}};
constexpr std::array kBitcastRules = {Rule{join_bitcast}};
constexpr std::array kChosenRules = {Rule{choose_integers}, Rule{choose_plain_integers}};

std::span<const Rule> rules_of(Kind kind) {
  switch (kind) {
    case Kind::kQuantize:
      return kQuantizeRules;
    case Kind::kDequantize:
      return kDequantizeRules;
    case Kind::kBitcast:
      return kBitcastRules;
    default:
      return core::builtin(kind).integers == core::Integers::kChosen ? kChosenRules : std::span<const Rule>();
  }
}

bool is_quantized_model(const Graph& graph) {
  return std::any_of(graph.ops.begin(), graph.ops.end(),
                     [](const Op& op) { return op.kind == Kind::kQuantize || op.kind == Kind::kDequantize; });
}

// Whether the op only drops or adds a grid.
bool is_regridding(const Graph& graph, const Op& op) {
  return op.kind == Kind::kBitcast && graph.at(op.inputs[0]).dtype == graph.at(op.outputs[0]).dtype;
}

bool has_usable_grid(const core::Value& value) {
  const auto grid = grid_of(value);
  return grid && has_kernels(*grid);
}

// The model's own inputs and outputs have the grid themselves, in place of a BITCAST that adds or drops it.
void set_grids_at_borders(Graph& graph) {
  for (ValueId& out : graph.outputs) {
    const OpId producer = graph.at(out).producer;
    if (producer < 0) continue;
    const Op& op = graph.ops[static_cast<size_t>(producer)];
    if (is_regridding(graph, op) && has_usable_grid(graph.at(op.inputs[0]))) out = op.inputs[0];
  }
  const auto users = graph.users();
  for (const ValueId in : graph.inputs) {
    if (std::find(graph.outputs.begin(), graph.outputs.end(), in) != graph.outputs.end()) continue;
    std::optional<TensorGrid> grid;
    bool all = !users[static_cast<size_t>(in)].empty();
    for (const OpId user : users[static_cast<size_t>(in)]) {
      const Op& op = graph.ops[static_cast<size_t>(user)];
      const auto own = is_regridding(graph, op) ? grid_of(graph.at(op.outputs[0])) : std::nullopt;
      all = all && own && has_kernels(*own) && (!grid || grid == own);
      grid = own;
    }
    if (!all) continue;
    graph.at(in).quantization = quantization_of(*grid);
    for (const OpId user : users[static_cast<size_t>(in)])
      graph.replace_uses(graph.ops[static_cast<size_t>(user)].outputs[0], in);
  }
  graph.tidy();
}

std::vector<FloatIsland> islands(Graph& graph) {
  std::vector<FloatIsland> out;
  Rewriter rewriter(graph);
  const size_t count = graph.ops.size();
  for (size_t i = 0; i < count; ++i) {
    const Op& op = graph.ops[i];
    if (op.kind == Kind::kQuantize || op.kind == Kind::kDequantize) continue;
    std::string reason = reason_for_floats(rewriter, static_cast<OpId>(i));
    if (!reason.empty()) out.push_back({graph.origins[op.origin], std::string(kind_name(op.kind)), std::move(reason)});
  }
  graph.tidy();
  return out;
}

}  // namespace

std::vector<FloatIsland> quantize(Graph& graph, bool is_main) {
  if (!is_quantized_model(graph)) return {};
  core::apply_rules(graph, rules_of);
  if (is_main) set_grids_at_borders(graph);
  core::apply_rules(graph, rules_of);
  return islands(graph);
}

}  // namespace lowtide::layout
