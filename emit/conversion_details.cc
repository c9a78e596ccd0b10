// SPDX-License-Identifier: Apache-2.0
#include "emit/conversion_details.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "emit/recipe_text.h"
#include "emit/tensor_names.h"

namespace lowtide::emit {
namespace {

using Json = nlohmann::ordered_json;
using core::kAbsent;
using core::Kind;
using core::ValueId;

constexpr size_t kMostTransposes = 1000;
constexpr size_t kMostTensors = 50;

// The most frequent first.
Json by_count(const std::map<std::string, uint64_t>& counts) {
  std::vector<std::pair<std::string, uint64_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  Json out = Json::object();
  for (const auto& [name, count] : sorted) out[name] = count;
  return out;
}

void count_nodes(const onnx::Graph& graph, std::map<std::string, uint64_t>& counts) {
  for (const onnx::Node& node : graph.nodes) {
    ++counts[node.domain.empty() ? node.op_type : node.domain + "." + node.op_type];
    for (const onnx::Attribute& attribute : node.attributes)
      for (const auto& inner : attribute.graphs) count_nodes(*inner, counts);
  }
}

Json shape_values(const core::Graph& graph, const core::Shape& shape) {
  Json out = Json::array();
  for (core::Dim dim : shape) core::is_symbol(dim) ? out.push_back(graph.symbols.to_string(dim)) : out.push_back(dim);
  return out;
}

// Who fixes the order of a value: an op, or the graph's border.
class Neighbours {
 public:
  explicit Neighbours(const core::Graph& graph)
      : graph_(graph), first_user_(graph.values.size(), -1), output_(graph.values.size(), -1) {
    // Of several users the first one that does not transpose itself.
    for (size_t i = 0; i < graph.ops.size(); ++i)
      for (ValueId id : graph.ops[i].inputs) {
        if (id == kAbsent) continue;
        core::OpId& user = first_user_[static_cast<size_t>(id)];
        if (user < 0 || (transposes(user) && !transposes(static_cast<core::OpId>(i))))
          user = static_cast<core::OpId>(i);
      }
    for (size_t i = 0; i < graph.outputs.size(); ++i)
      if (graph.outputs[i] != kAbsent) output_[static_cast<size_t>(graph.outputs[i])] = static_cast<int32_t>(i);
  }

  // A user of the value, or the graph's output; nothing when it has none but transposes.
  std::optional<Json> user(ValueId id) const {
    const core::OpId op = first_user_[static_cast<size_t>(id)];
    if (op >= 0 && !transposes(op)) return of_op("user", op);
    const int32_t output = output_[static_cast<size_t>(id)];
    if (output >= 0) return border("output", graph_.output_names, output, id);
    if (op >= 0) return of_op("user", op);
    return std::nullopt;
  }
  Json producer(ValueId id) const {
    if (graph_.at(id).producer >= 0) return of_op("producer", graph_.at(id).producer);
    const auto at = std::find(graph_.inputs.begin(), graph_.inputs.end(), id) - graph_.inputs.begin();
    return border("input", graph_.input_names, static_cast<int32_t>(at), id);
  }
  bool has_other_user(ValueId id) const {
    const core::OpId op = first_user_[static_cast<size_t>(id)];
    return (op >= 0 && !transposes(op)) || output_[static_cast<size_t>(id)] >= 0;
  }

 private:
  bool transposes(core::OpId op) const { return graph_.op(op).kind == Kind::kTranspose; }
  Json of_op(const char* role, core::OpId id) const {
    const core::Op& op = graph_.op(id);
    return {{"role", role}, {"op", core::kind_name(op.kind)}, {"node", graph_.origins[op.origin]}, {"operator", id}};
  }
  Json border(const char* role, const std::vector<std::string>& names, int32_t index, ValueId id) const {
    const auto i = static_cast<size_t>(index);
    return {{"role", role}, {"op", ""}, {"node", i < names.size() ? names[i] : graph_.at(id).name}, {"operator", -1}};
  }

  const core::Graph& graph_;
  std::vector<core::OpId> first_user_;  // by value
  std::vector<int32_t> output_;         // by value: its index among the graph's outputs
};

void add_transposes(core::Graph& graph, size_t number, Json& out) {
  const auto is_transpose = [](const core::Op& op) { return op.kind == Kind::kTranspose; };
  if (std::none_of(graph.ops.begin(), graph.ops.end(), is_transpose)) return;
  const Neighbours neighbours(graph);
  const std::vector<std::string> names = tensor_names(graph);
  for (size_t i = 0; i < graph.ops.size() && out.size() < kMostTransposes; ++i) {
    const core::Op& op = graph.ops[i];
    if (!is_transpose(op)) continue;
    const ValueId in = op.inputs[0], result = op.outputs[0];
    const core::Shape& shape = graph.at(in).shape;
    Json item = {{"graph", number},
                 {"operator", i},
                 {"node", graph.origins[op.origin]},
                 {"tensor", names[static_cast<size_t>(in)]},
                 {"shape", shape_values(graph, shape)}};
    if (auto perm = graph.ints(op.inputs[1])) item["permutation"] = *perm;
    if (stream::is_static(shape)) item["bytes"] = stream::file_bytes(graph.at(in).dtype, stream::element_count(shape));
    const bool shared = neighbours.has_other_user(in);
    item["stored_for"] = shared ? *neighbours.user(in) : neighbours.producer(in);
    if (auto user = neighbours.user(result)) item["wanted_by"] = *user;
    out.push_back(std::move(item));
  }
}

// Each constant once, however many tensors share it.
template <typename Visit>
void each_constant(const core::Model& model, Visit visit) {
  std::unordered_set<const stream::Recipe*> seen;
  for (size_t g = 0; g < model.graphs.size(); ++g)
    for (const core::Op& op : model.graphs[g]->ops)
      for (ValueId id : op.inputs)
        if (id != kAbsent && model.graphs[g]->at(id).is_constant() &&
            seen.insert(model.graphs[g]->at(id).constant.get()).second)
          visit(g, id, model.graphs[g]->at(id));
}

// CASTs to fewer bits that are no Cast of the ONNX model: a kernel computes in a narrower type.
std::map<std::pair<stream::DType, stream::DType>, uint64_t> narrowing_casts(const core::Model& model) {
  std::map<std::pair<stream::DType, stream::DType>, uint64_t> out;
  for (const auto& graph : model.graphs)
    for (const core::Op& op : graph->ops) {
      if (op.kind != Kind::kCast || model.onnx_operators[graph->origin_operator(op.origin)] == "Cast") continue;
      const stream::DType from = graph->at(op.inputs[0]).dtype, to = graph->at(op.outputs[0]).dtype;
      if (stream::bits(to) < stream::bits(from) && to != stream::DType::kBool) ++out[{from, to}];
    }
  return out;
}

}  // namespace

Json operator_counts(const onnx::Model& model) {
  std::map<std::string, uint64_t> counts;
  count_nodes(model.graph, counts);
  return by_count(counts);
}

Json operator_counts(const core::Model& model) {
  std::map<std::string, uint64_t> counts;
  for (const auto& graph : model.graphs)
    for (const core::Op& op : graph->ops) ++counts[std::string(core::kind_name(op.kind))];
  return by_count(counts);
}

Json kept_transposes(core::Model& model) {
  Json out = Json::array();
  for (size_t g = 0; g < model.graphs.size(); ++g) add_transposes(*model.graphs[g], g, out);
  return out;
}

Json largest_tensors(const core::Model& model) {
  struct Sized {
    uint64_t bytes;
    size_t graph;
    ValueId id;
  };
  const auto larger = [](const Sized& a, const Sized& b) {
    return std::tuple(b.bytes, a.graph, a.id) < std::tuple(a.bytes, b.graph, b.id);
  };
  std::vector<Sized> kept;  // a heap whose front is the smallest
  each_constant(model, [&](size_t graph, ValueId id, const core::Value& value) {
    kept.push_back({value.constant->bytes(), graph, id});
    std::push_heap(kept.begin(), kept.end(), larger);
    if (kept.size() <= kMostTensors) return;
    std::pop_heap(kept.begin(), kept.end(), larger);
    kept.pop_back();
  });
  std::sort_heap(kept.begin(), kept.end(), larger);
  Json out = Json::array();
  size_t named_graph = SIZE_MAX;
  std::vector<std::string> names;
  for (const Sized& sized : kept) {
    const core::Graph& graph = *model.graphs[sized.graph];
    if (std::exchange(named_graph, sized.graph) != sized.graph) names = tensor_names(graph);
    const core::Value& value = graph.at(sized.id);
    out.push_back({{"name", names[static_cast<size_t>(sized.id)]},
                   {"type", stream::dtype_name(value.dtype)},
                   {"shape", shape_values(graph, value.shape)},
                   {"bytes", sized.bytes},
                   {"recipe", recipe_text(*value.constant)}});
  }
  return out;
}

Json narrowed_types(const core::Model& model) {
  struct Sum {
    uint64_t count = 0, before = 0, after = 0;
  };
  std::map<std::pair<stream::DType, stream::DType>, Sum> constants;
  each_constant(model, [&](size_t, ValueId, const core::Value& value) {
    const stream::DType from = type_in_file(*value.constant);
    if (from == stream::DType::kUndefined || stream::bits(value.dtype) >= stream::bits(from)) return;
    Sum& sum = constants[{from, value.dtype}];
    ++sum.count;
    sum.before += stream::file_bytes(from, value.constant->elements());
    sum.after += value.constant->bytes();
  });
  Json out = Json::array();
  for (const auto& [types, sum] : constants)
    out.push_back({{"what", "constants"},
                   {"from", stream::dtype_name(types.first)},
                   {"to", stream::dtype_name(types.second)},
                   {"count", sum.count},
                   {"bytes_before", sum.before},
                   {"bytes_after", sum.after}});
  for (const auto& [types, count] : narrowing_casts(model))
    out.push_back({{"what", "values"},
                   {"from", stream::dtype_name(types.first)},
                   {"to", stream::dtype_name(types.second)},
                   {"count", count}});
  return out;
}

Json model_versions(const onnx::Model& model) {
  Json opsets = Json::object();
  for (const auto& [domain, version] : model.opsets) opsets[domain.empty() ? "ai.onnx" : domain] = version;
  Json out = {{"onnx_ir", model.ir_version}, {"opsets", opsets}};
  if (!model.producer_name.empty())
    out["producer"] =
        model.producer_version.empty() ? model.producer_name : model.producer_name + " " + model.producer_version;
  return out;
}

}  // namespace lowtide::emit
