// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/target_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "layout/lower/node_order.h"
#include "layout/lower/values_used.h"
#include "layout/model_types.h"
#include "layout/random_nodes.h"
#include "stream/dtype.h"

namespace lowtide::tools {
namespace {

using onnx::ValueInfo;
using stream::DType;

std::string misfit_of(const Target::Attribute& rule, const onnx::Node& node) {
  const onnx::Attribute* given = node.find(rule.name);
  std::vector<int64_t> numbers;
  std::optional<std::string> text;
  if (given == nullptr) {
    if (rule.number) numbers = {*rule.number};
    text = rule.text;
  } else if (given->type == onnx::Attribute::Type::kInt) {
    numbers = {given->i};
  } else if (given->type == onnx::Attribute::Type::kInts) {
    numbers = given->ints;
  } else if (given->type == onnx::Attribute::Type::kString) {
    text = given->s;
  } else if (given->type == onnx::Attribute::Type::kFloat && std::floor(given->f) == given->f &&
             std::abs(given->f) < 1e9) {
    numbers = {static_cast<int64_t>(given->f)};
  } else {
    return fmt::format("its attribute '{}' has another form", rule.name);
  }
  for (const int64_t number : numbers) {
    const bool listed =
        rule.numbers.empty() || std::find(rule.numbers.begin(), rule.numbers.end(), number) != rule.numbers.end();
    if (!listed || (rule.range && !rule.range->has(number)) || !rule.texts.empty())
      return fmt::format("its attribute '{}' has {}", rule.name, number);
  }
  const bool other_text =
      text && (!rule.numbers.empty() || rule.range ||
               (!rule.texts.empty() && std::find(rule.texts.begin(), rule.texts.end(), *text) == rule.texts.end()));
  return other_text ? fmt::format("its attribute '{}' is '{}'", rule.name, *text) : "";
}

// The one node that uses a value; SIZE_MAX: none, several, or the value is an output of the graph.
class SingleUsers {
 public:
  explicit SingleUsers(const onnx::Graph& graph) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      std::vector<std::string_view> used;
      layout::add_values_used(graph.nodes[i], used);
      for (const std::string_view value : used)
        if (const auto [found, fresh] = user_.emplace(value, i); !fresh && found->second != i) found->second = SIZE_MAX;
    }
    for (const ValueInfo& output : graph.outputs) user_[output.name] = SIZE_MAX;
  }
  size_t of(const onnx::Node& node) const {
    const auto made =
        std::count_if(node.outputs.begin(), node.outputs.end(), [](const auto& name) { return !name.empty(); });
    const auto found = made == 1 && !node.outputs.front().empty() ? user_.find(node.outputs.front()) : user_.end();
    return found == user_.end() ? SIZE_MAX : found->second;
  }

 private:
  std::unordered_map<std::string_view, size_t> user_;
};

}  // namespace

struct TargetRules::Facts {
  const layout::ModelTypes& types;
  const std::unordered_map<std::string, ValueInfo>& constants;

  bool is_constant(const std::string& value) const {
    return constants.contains(value) || types.integers.contains(value);
  }
  const ValueInfo* type(const std::string& value) const {
    if (const auto found = types.values.find(value); found != types.values.end()) return &found->second;
    const auto found = constants.find(value);
    return found != constants.end() && found->second.dtype != DType::kUndefined ? &found->second : nullptr;
  }
};

TargetRules::TargetRules(const Target& target, const onnx::Model& model) : target_(target) {
  for (const onnx::Tensor& tensor : model.graph.initializers)
    constants_.emplace(tensor.name, layout::type_of_constant(tensor));
  for (const onnx::SparseTensor& tensor : model.graph.sparse_initializers)
    constants_.emplace(tensor.values.name, layout::type_of_constant(tensor));
  const std::vector<bool> is_random = layout::random_nodes(model);
  std::unordered_set<std::string_view> outputs;
  for (const ValueInfo& output : model.graph.outputs) outputs.insert(output.name);
  auto is_output = [&](const std::string& name) { return outputs.contains(name); };
  for (const onnx::Node* node : layout::in_order(model.graph)) {
    if (is_random[static_cast<size_t>(node - model.graph.nodes.data())]) continue;
    std::vector<std::string_view> used;
    layout::add_values_used(*node, used);
    if (!std::all_of(used.begin(), used.end(),
                     [&](std::string_view value) { return constants_.contains(std::string(value)); }))
      continue;
    // What is an output of the model is made in one piece, and is no constant to others; in TFLite it is folded.
    if (!target.writes_tflite && std::any_of(node->outputs.begin(), node->outputs.end(), is_output)) continue;
    const bool stays = !target.writes_tflite && (node->op_type == "DequantizeLinear" ||  // of com.microsoft too
                                                 std::any_of(used.begin(), used.end(), [&](std::string_view value) {
                                                   return unfolded_.contains(std::string(value));
                                                 }));
    for (const std::string& name : node->outputs) {
      constants_.emplace(name, ValueInfo());
      if (stays) unfolded_.insert(name);
    }
  }
  find_groups(model.graph);
}

void TargetRules::find_groups(const onnx::Graph& graph) {
  if (target_.patterns.empty()) return;
  const SingleUsers users(graph);
  std::vector<bool> taken(graph.nodes.size(), false);
  for (const std::vector<std::string>& pattern : target_.patterns)
    for (size_t first = 0; first < graph.nodes.size(); ++first) {
      std::vector<size_t> chain;
      for (size_t node = first; node != SIZE_MAX && !taken[node] && chain.size() < pattern.size();
           node = users.of(graph.nodes[node])) {
        if (layout::full_name(graph.nodes[node]) != pattern[chain.size()]) break;
        chain.push_back(node);
      }
      if (chain.size() < pattern.size()) continue;
      for (const size_t node : chain) {
        taken[node] = true;
        for (const std::string& name : graph.nodes[node].outputs)
          if (!name.empty()) group_of_.emplace(name, groups_.size());
      }
      groups_.push_back(std::move(chain));
    }
}

bool TargetRules::is_in_pattern(const onnx::Node& node) const {
  return std::any_of(node.outputs.begin(), node.outputs.end(),
                     [&](const std::string& name) { return group_of_.contains(name); });
}

std::vector<const Target::Entry*> TargetRules::fitting(const onnx::Node& node, const layout::ModelTypes& types,
                                                       std::string& first) const {
  std::vector<const Target::Entry*> out;
  const auto entries = target_.operators.find(layout::full_name(node));
  if (entries == target_.operators.end()) {
    first = fmt::format("{} does not have the operator", target_.name);
    return out;
  }
  const Facts facts{types, constants_};
  for (const Target::Entry& entry : entries->second) {
    const std::string reason = misfit(entry, node, facts);
    if (reason.empty())
      out.push_back(&entry);
    else if (first.empty())
      first = fmt::format("{}: {}", target_.name, reason);
  }
  return out;
}

// Constants, and what is computed from constants alone, are data, of which each piece has a copy: conversion folds
// them, and so does ONNX Runtime before it gives a graph to an execution provider, but for DequantizeLinear, which
// providers read as the scale of a weight. In a piece of its own the result would be an input of the others, which
// rules for constants refuse.
bool TargetRules::is_data(const onnx::Node& node) const {
  return std::all_of(node.outputs.begin(), node.outputs.end(), [&](const std::string& name) {
    return name.empty() || (constants_.contains(name) && !unfolded_.contains(name));
  });
}

std::string TargetRules::refuse(const onnx::Node& node, const layout::ModelTypes& types) const {
  if (is_data(node)) return "";
  std::string first;
  return target_.takes_all || !fitting(node, types, first).empty() ? "" : first;
}

std::vector<std::pair<size_t, std::string>> TargetRules::refuse_inside(const onnx::Model& model,
                                                                       const layout::ModelPiece& piece,
                                                                       const layout::ModelTypes& types) const {
  std::vector<std::pair<size_t, std::string>> out;
  if (target_.takes_all) return out;
  const std::vector<onnx::Node>& nodes = model.graph.nodes;
  std::unordered_set<std::string_view> made, used;
  for (const size_t i : piece.nodes) {
    made.insert(nodes[i].outputs.begin(), nodes[i].outputs.end());
    std::vector<std::string_view> values;
    layout::add_values_used(nodes[i], values);
    used.insert(values.begin(), values.end());
  }
  auto is_none_in = [](const std::unordered_set<std::string_view>& set) {
    return [&set](std::string_view name) { return name.empty() || !set.contains(name); };
  };
  for (const size_t i : piece.nodes) {
    std::string ignored;
    const std::vector<const Target::Entry*> entries = fitting(nodes[i], types, ignored);
    if (std::any_of(entries.begin(), entries.end(), [](const Target::Entry* some) { return !some->only_at_border; }))
      continue;
    std::vector<std::string_view> values;
    layout::add_values_used(nodes[i], values);
    const bool is_first = std::all_of(values.begin(), values.end(), is_none_in(made));
    const bool is_last = std::all_of(nodes[i].outputs.begin(), nodes[i].outputs.end(), is_none_in(used));
    if (!is_first && !is_last)
      out.emplace_back(i, fmt::format("{}: it may only be where a piece begins or ends", target_.name));
  }
  return out;
}

std::string TargetRules::misfit(const Target::Entry& entry, const onnx::Node& node, const Facts& facts) const {
  const auto inputs = static_cast<int64_t>(node.inputs.size()), outputs = static_cast<int64_t>(node.outputs.size());
  if (entry.input_count && !entry.input_count->has(inputs)) return fmt::format("it has {} inputs", inputs);
  if (entry.output_count && !entry.output_count->has(outputs)) return fmt::format("it has {} outputs", outputs);
  if (entry.only_in_pattern && !is_in_pattern(node)) return "it is in none of the target's patterns";
  for (const Target::Attribute& rule : entry.attributes)
    if (std::string reason = misfit_of(rule, node); !reason.empty()) return reason;
  for (const auto& [rules, values] : {std::pair{&entry.inputs, &node.inputs}, std::pair{&entry.outputs, &node.outputs}})
    for (const Target::Operand& rule : *rules)
      for (size_t i = 0; i < values->size(); ++i)
        if (rule.at.value_or(i) == i && !(*values)[i].empty())
          if (std::string reason = misfit(rule, (*values)[i], facts); !reason.empty()) return reason;
  return {};
}

std::string TargetRules::misfit(const Target::Operand& rule, const std::string& value, const Facts& facts) const {
  if (rule.constant && *rule.constant != facts.is_constant(value))
    return fmt::format("'{}' is {}constant", value, *rule.constant ? "not " : "");
  if (rule.dtypes.empty() && !rule.rank && !rule.wide_rank && !rule.extents) return {};
  const ValueInfo* type = facts.type(value);
  if (type == nullptr) return fmt::format("the type of '{}' is not known", value);
  if (!rule.dtypes.empty() && std::find(rule.dtypes.begin(), rule.dtypes.end(), type->dtype) == rule.dtypes.end())
    return fmt::format("'{}' is {}", value, stream::dtype_name(type->dtype));
  if (!rule.rank && !rule.wide_rank && !rule.extents) return {};
  if (!type->has_shape) return fmt::format("the shape of '{}' is not known", value);
  const auto rank = static_cast<int64_t>(type->dims.size());
  if (rule.rank && !rule.rank->has(rank)) return fmt::format("'{}' has rank {}", value, rank);
  int64_t wide = 0;
  for (const onnx::Dimension& dim : type->dims) {
    if (dim.value != 1) ++wide;
    if (!rule.extents) continue;
    if (dim.value < 0) return fmt::format("an extent of '{}' is not fixed", value);
    if (!rule.extents->has(dim.value)) return fmt::format("'{}' has an extent of {}", value, dim.value);
  }
  if (rule.wide_rank && !rule.wide_rank->has(wide))
    return fmt::format("'{}' has {} dimensions that are not 1", value, wide);
  return {};
}

}  // namespace lowtide::tools
