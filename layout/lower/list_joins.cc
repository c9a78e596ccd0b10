// SPDX-License-Identifier: Apache-2.0
#include "layout/lower/list_joins.h"

#include <algorithm>
#include <vector>

#include "layout/lower/node_order.h"
#include "stream/error.h"

namespace lowtide::layout {
namespace {

constexpr int kDeepest = 32;  // as deep as subgraphs are lowered

int64_t integer_of(const onnx::Node& node, const char* name) {
  const onnx::Attribute* found = node.find(name);
  return found && found->type == onnx::Attribute::Type::kInt ? found->i : 0;
}

}  // namespace

std::optional<ListJoin> ListJoins::find(const std::string& list) const {
  const auto found = joins_.find(list);
  return found == joins_.end() ? std::nullopt : std::optional(found->second);
}

void ListJoins::pass_on(const std::string& from, const std::string& to) {
  const auto found = joins_.find(from);
  if (found == joins_.end() || to.empty()) return;
  const ListJoin join = found->second;
  joins_.try_emplace(to, join);
}

// From the end to the beginning: what becomes of a list is known before the list is met.
void ListJoins::look_through(const onnx::Graph& graph, int depth) {
  if (depth > kDeepest) return;
  std::vector<const onnx::Node*> nodes;
  try {
    nodes = in_order(graph);
  } catch (const stream::Error&) {  // malformed, but it may be that nothing needs this graph
    return;
  }
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) look_at(**node, depth);
}

void ListJoins::look_at(const onnx::Node& node, int depth) {
  const std::string& type = node.op_type;
  if (type == "ConcatFromSequence" && !node.inputs.empty())
    joins_.try_emplace(node.inputs[0], ListJoin{integer_of(node, "axis"), integer_of(node, "new_axis") != 0});
  const bool is_passed = type == "Identity" || type == "SequenceInsert" || type == "SequenceErase";
  if (is_passed && !node.inputs.empty() && !node.outputs.empty()) pass_on(node.outputs[0], node.inputs[0]);
  const bool is_loop = type == "Loop";
  for (const onnx::Attribute& attribute : node.attributes)
    for (const auto& inner : attribute.graphs) {
      // The body's first output is its condition; the first two inputs of a Loop are no lists.
      const size_t before = is_loop ? 1 : 0;
      for (size_t i = 0; i < node.outputs.size() && i + before < inner->outputs.size(); ++i) {
        pass_on(node.outputs[i], inner->outputs[i + before].name);
        if (is_loop && i + 2 < node.inputs.size()) pass_on(node.outputs[i], node.inputs[i + 2]);
      }
      look_through(*inner, depth + 1);
    }
}

}  // namespace lowtide::layout
