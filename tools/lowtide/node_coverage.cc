// SPDX-License-Identifier: Apache-2.0
// Which nodes of a model a target of `lowtide partition` takes, and which share of the work the others are.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "layout/lower/node_order.h"
#include "layout/model_types.h"
#include "layout/model_units.h"
#include "tools/lowtide/for_target.h"
#include "tools/lowtide/target_rules.h"

namespace lowtide::tools {
namespace {

// A reason without the names of the node's values, so that nodes with the same reason are one row.
std::string without_names(std::string reason, const onnx::Node& node) {
  for (const auto* names : {&node.inputs, &node.outputs})
    for (const std::string& name : *names) {
      const std::string quoted = fmt::format("'{}'", name);
      if (const size_t at = reason.find(quoted); at != reason.npos) reason.erase(at, quoted.size());
    }
  return reason;
}

void fix_shapes(onnx::Model& model, const std::map<std::string, core::Shape>& shapes) {
  for (onnx::ValueInfo& input : model.graph.inputs) {
    const auto fixed = shapes.find(input.name);
    if (fixed == shapes.end() || (input.has_shape && input.dims.size() != fixed->second.size())) continue;
    input.has_shape = true;
    input.dims.clear();
    for (const core::Dim dim : fixed->second) input.dims.push_back({dim, ""});
  }
}

// Why each node is outside; empty: it is inside.
std::vector<std::string> reasons_of(const TargetRules& rules, const onnx::Model& model,
                                    const layout::ModelTypes& types) {
  std::vector<std::string> out;
  layout::ModelPiece inside;
  for (size_t i = 0; i < model.graph.nodes.size(); ++i) {
    out.push_back(rules.refuse(model.graph.nodes[i], types));
    if (out.back().empty()) inside.nodes.push_back(i);
  }
  for (auto& [node, reason] : rules.refuse_inside(model, inside, types)) out[node] = std::move(reason);
  return out;
}

}  // namespace

core::TargetCoverage coverage(const Target& target, const onnx::Model& model,
                              const std::map<std::string, core::Shape>& shapes, stream::Budget& budget) {
  onnx::Model fixed = model;
  fix_shapes(fixed, shapes);
  const std::vector<onnx::Node>& nodes = fixed.graph.nodes;
  const layout::ModelTypes types = layout::find_types(fixed, {}, budget);
  const TargetRules rules(target, fixed);
  const std::vector<std::string> reasons = reasons_of(rules, fixed, types);
  const layout::ModelUnits units = layout::make_units(fixed, types, reasons, {.penalty = 1}, {}, rules.groups());

  core::TargetCoverage out;
  out.target = target.name;
  out.of_nodes = true;
  std::map<std::pair<std::string, std::string>, core::OutsideOperators> found;
  double all = 0, outside = 0;
  for (size_t unit = 0; unit < units.nodes.size(); ++unit) {
    const std::vector<size_t>& members = units.nodes[unit];
    const auto work = static_cast<double>(units.graph.units[unit].in(layout::PieceRuntime::kOnnx));
    all += work;
    out.operators += members.size();
    const auto refused =
        std::find_if(members.begin(), members.end(), [&](size_t node) { return !reasons[node].empty(); });
    if (refused == members.end()) {
      out.inside += members.size();
      continue;
    }
    outside += work;
    for (const size_t i : members) {
      const std::string reason =
          reasons[i].empty() ? fmt::format("it stays together with '{}'", nodes[*refused].label()) : reasons[i];
      const std::string op = layout::full_name(nodes[i]);
      core::OutsideOperators& row = found[{op, without_names(reason, nodes[i])}];
      if (row.count++ == 0) {
        row.op = op;
        row.node = nodes[i].label();
        row.reason = reason;
      }
      row.share += i == *refused ? work : 0;  // the work of all of them
    }
  }
  for (auto& [ignored, row] : found) {
    row.share = all > 0 ? row.share / all : 0;
    out.outside.push_back(std::move(row));
  }
  std::stable_sort(out.outside.begin(), out.outside.end(),
                   [](const auto& a, const auto& b) { return a.share > b.share; });
  out.share = all > 0 ? 1 - outside / all : 1;
  return out;
}

}  // namespace lowtide::tools
