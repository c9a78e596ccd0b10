// SPDX-License-Identifier: Apache-2.0
#include "emit/tensor_names.h"

#include <fmt/format.h>

#include <string_view>
#include <unordered_map>
#include <utility>

#include "stream/printable.h"

namespace lowtide::emit {
namespace {

class Names {
 public:
  // Makes `name`, or that with a number, the name of `tensor`, which stays where it is while there are names.
  void give(std::string& tensor, std::string name) {
    tensor = std::move(name);
    if (claim(tensor)) return;
    const std::string base = tensor;
    do tensor = fmt::format("{}_{}", base, next_.find(base)->second++);
    while (!claim(tensor));
  }

 private:
  bool claim(const std::string& name) { return next_.try_emplace(name, 1).second; }

  std::unordered_map<std::string_view, int> next_;
};

std::string base_name(const core::Graph& graph, core::ValueId id, const std::vector<uint32_t>& origin_of) {
  const core::Value& value = graph.at(id);
  if (!value.name.empty()) return value.name;
  const std::string& origin = graph.origins[origin_of[static_cast<size_t>(id)]];
  std::string last = value.is_constant() ? "constant" : "value";
  if (value.producer >= 0) last = core::kind_name(graph.op(value.producer).kind);
  if (origin.empty()) return last;
  constexpr size_t kMostOrigin = 256;  // one origin may have many tensors
  return fmt::format("{}/{}", stream::end_of(origin, kMostOrigin), last);
}

}  // namespace

std::vector<std::string> tensor_names(const core::Graph& graph) {
  std::vector<std::string> out(graph.values.size());
  Names names;
  auto keep = [&](const std::vector<core::ValueId>& ids, const std::vector<std::string>& given) {
    for (size_t i = 0; i < ids.size(); ++i) {
      std::string& name = out[static_cast<size_t>(ids[i])];
      const std::string& wanted = i < given.size() ? given[i] : graph.at(ids[i]).name;
      if (!name.empty() || wanted.empty()) continue;
      names.give(name, wanted);
    }
  };
  keep(graph.inputs, graph.input_names);
  keep(graph.outputs, graph.output_names);

  std::vector<uint32_t> origin_of(graph.values.size(), 0);  // of the producer, or of a constant's first user
  for (const core::Op& op : graph.ops) {
    for (core::ValueId id : op.outputs) origin_of[static_cast<size_t>(id)] = op.origin;
    for (core::ValueId id : op.inputs)
      if (id != core::kAbsent && origin_of[static_cast<size_t>(id)] == 0)
        origin_of[static_cast<size_t>(id)] = op.origin;
  }
  for (size_t i = 0; i < out.size(); ++i)
    if (out[i].empty()) names.give(out[i], base_name(graph, static_cast<core::ValueId>(i), origin_of));
  return out;
}

std::vector<core::ValueId> tensor_order(const core::Graph& graph) {
  std::vector<core::ValueId> order;
  std::vector<bool> seen(graph.values.size(), false);
  auto meet = [&](core::ValueId id) {
    if (id == core::kAbsent || seen[static_cast<size_t>(id)]) return;
    seen[static_cast<size_t>(id)] = true;
    order.push_back(id);
  };
  for (core::ValueId id : graph.inputs) meet(id);
  for (const core::Op& op : graph.ops) {
    for (core::ValueId id : op.inputs) meet(id);
    for (core::ValueId id : op.outputs) meet(id);
  }
  for (core::ValueId id : graph.outputs) meet(id);
  return order;
}

}  // namespace lowtide::emit
