// SPDX-License-Identifier: Apache-2.0
#include "layout/optional_values.h"

#include <string_view>
#include <unordered_map>
#include <vector>

#include "layout/lower/node_order.h"
#include "layout/lower/subgraph.h"

namespace lowtide::layout {
namespace {

// Values of a graph, and whether they are optionals; of the main graph only those that are.
struct Scope {
  const Scope* around = nullptr;
  std::unordered_map<std::string_view, bool> own;

  bool has_optional(std::string_view name) const {
    const auto found = own.find(name);
    if (found != own.end()) return found->second;
    return around && around->has_optional(name);
  }
};

void add_values(const onnx::Graph& graph, Scope& scope);

// For each output of the node.
std::vector<bool> makes_optional(const onnx::Node& node, const Scope& scope) {
  std::vector<bool> out(node.outputs.size(), false);
  auto takes_optional = [&](size_t place) {
    return place < node.inputs.size() && scope.has_optional(node.inputs[place]);
  };
  const std::string name = full_name(node);
  if (name == "Optional") return std::vector<bool>(out.size(), true);
  if (name == "Identity") return std::vector<bool>(out.size(), takes_optional(0));
  const bool is_loop = name == "Loop";
  for (const onnx::Attribute& attribute : node.attributes)
    for (const auto& body : attribute.graphs) {
      Scope inner{&scope, {}};
      // A Loop hands its inputs to its body; what the body gives for the condition is no output.
      const std::vector<const onnx::ValueInfo*> given = given_inputs(*body);
      for (size_t i = 0; i < given.size(); ++i)
        inner.own.insert_or_assign(given[i]->name, is_loop && takes_optional(i));
      add_values(*body, inner);
      const size_t skipped = is_loop ? 1 : 0;
      for (size_t i = 0; i < out.size() && i + skipped < body->outputs.size(); ++i)
        out[i] = out[i] || inner.has_optional(body->outputs[i + skipped].name);
    }
  return out;
}

void add_values(const onnx::Graph& graph, Scope& scope) {
  if (scope.around)
    for (const onnx::Tensor& tensor : graph.initializers) scope.own.insert_or_assign(tensor.name, false);
  for (const onnx::Node* node : in_order(graph)) {
    const std::vector<bool> made = makes_optional(*node, scope);
    for (size_t i = 0; i < made.size(); ++i)
      if (made[i] || scope.around)  // in a body also what hides a value of the graph around it
        scope.own.insert_or_assign(node->outputs[i], made[i]);
  }
}

}  // namespace

std::unordered_set<std::string> optional_values(const onnx::Graph& graph) {
  Scope scope;
  add_values(graph, scope);
  std::unordered_set<std::string> out;
  for (const auto& [name, is_optional] : scope.own)
    if (is_optional) out.emplace(name);
  return out;
}

}  // namespace lowtide::layout
