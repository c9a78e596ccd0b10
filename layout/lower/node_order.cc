// SPDX-License-Identifier: Apache-2.0
#include "layout/lower/node_order.h"

#include <functional>
#include <queue>
#include <string_view>
#include <unordered_map>

#include "layout/lower/values_used.h"
#include "stream/error.h"

namespace lowtide::layout {

std::string full_name(const onnx::Node& node) {
  return node.domain.empty() ? node.op_type : node.domain + "." + node.op_type;
}

std::vector<const onnx::Node*> in_order(const onnx::Graph& graph) {
  std::unordered_map<std::string_view, size_t> maker;
  maker.reserve(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    for (const std::string& out : graph.nodes[i].outputs)
      if (!out.empty()) maker.emplace(out, i);
  std::vector<int> waits(graph.nodes.size(), 0);
  std::vector<std::vector<size_t>> next(graph.nodes.size());
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  std::vector<std::string_view> used;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    used.clear();
    add_values_used(graph.nodes[i], used);
    for (std::string_view name : used)
      if (auto it = maker.find(name); it != maker.end() && it->second != i) {
        next[it->second].push_back(i);
        ++waits[i];
      }
    if (waits[i] == 0) ready.push(i);
  }
  std::vector<const onnx::Node*> out;
  while (!ready.empty()) {
    size_t i = ready.top();
    ready.pop();
    out.push_back(&graph.nodes[i]);
    for (size_t user : next[i])
      if (--waits[user] == 0) ready.push(user);
  }
  if (out.size() != graph.nodes.size()) {
    for (size_t i = 0; i < waits.size(); ++i)
      if (waits[i] > 0)
        throw stream::Error(stream::Code::kMalformed, "the graph has a cycle through this node",
                            {.node = graph.nodes[i].label(), .op = full_name(graph.nodes[i])});
  }
  return out;
}

}  // namespace lowtide::layout
