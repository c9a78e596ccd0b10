// SPDX-License-Identifier: Apache-2.0
#include "layout/interface.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "layout/value_names.h"
#include "stream/error.h"
#include "stream/nearest_name.h"

namespace lowtide::layout {
namespace {

using onnx::ValueInfo;
using stream::Code;
using stream::Error;

[[noreturn]] void interface_error(std::string text) { throw Error(Code::kUsage, std::move(text)); }

// All declared types of the graph and its subgraphs.
void for_each_type(onnx::Graph& graph, const std::function<void(ValueInfo&)>& visit) {
  for (auto* list : {&graph.inputs, &graph.outputs, &graph.value_info})
    for (ValueInfo& info : *list) visit(info);
  for (onnx::Node& node : graph.nodes)
    for (onnx::Attribute& attribute : node.attributes)
      for (const auto& inner : attribute.graphs) for_each_type(*inner, visit);
}

std::unordered_set<std::string_view> initializer_names(const onnx::Graph& graph) {
  std::unordered_set<std::string_view> out;
  for (const onnx::Tensor& tensor : graph.initializers) out.insert(tensor.name);
  for (const onnx::SparseTensor& tensor : graph.sparse_initializers) out.insert(tensor.values.name);
  return out;
}

[[noreturn]] void refuse_symbol(onnx::Model& model, const std::string& symbol) {
  std::vector<std::string> names, lines;
  const auto initializers = initializer_names(model.graph);
  std::unordered_map<std::string, std::vector<std::string>> users;
  for (const ValueInfo& input : model.graph.inputs) {
    if (initializers.contains(input.name)) continue;
    for (const onnx::Dimension& dim : input.dims) {
      if (dim.value >= 0 || !dim.has_name()) continue;
      std::vector<std::string>& of = users[dim.symbol];
      if (of.empty()) names.push_back(dim.symbol);
      if (of.empty() || of.back() != input.name) of.push_back(input.name);
    }
  }
  const std::string nearest = stream::nearest_name(symbol, names);
  std::stable_partition(names.begin(), names.end(), [&](const std::string& name) { return name == nearest; });
  for (const std::string& name : names) lines.push_back(fmt::format("{} of {}", name, fmt::join(users[name], " and ")));
  std::string computed;
  for_each_type(model.graph, [&](const ValueInfo& info) {
    for (const onnx::Dimension& dim : info.dims)
      if (computed.empty() && dim.symbol == symbol) computed = info.name;
  });
  const std::string list = lines.empty() ? "no input has a dimension with a name; fix shapes with --shape"
                                         : fmt::format("dimensions of inputs: {}", stream::listed(lines));
  if (!computed.empty())
    interface_error(fmt::format("--dim {}: the model computes this dimension, of '{}', and no input has it ({})",
                                symbol, computed, list));
  interface_error(
      fmt::format("--dim: no dimension has the name '{}'{} ({})", symbol, stream::did_you_mean(symbol, names), list));
}

// Also in subgraphs, which use values of the graphs around them by name.
void rename_uses(onnx::Node& node, const std::string& from, const std::string& to) {
  std::replace(node.inputs.begin(), node.inputs.end(), from, to);
  for (onnx::Attribute& attribute : node.attributes)
    for (const auto& graph : attribute.graphs) {
      for (onnx::Node& inner : graph->nodes) rename_uses(inner, from, to);
      for (ValueInfo& output : graph->outputs)
        if (output.name == from) output.name = to;
    }
}

// Names that the graph's nodes use, also those of the graphs around it.
void add_used_names(const onnx::Node& node, std::vector<std::string_view>& out) {
  for (const std::string& name : node.inputs)
    if (!name.empty()) out.emplace_back(name);
  for (const onnx::Attribute& attribute : node.attributes)
    for (const auto& graph : attribute.graphs) {
      for (const ValueInfo& output : graph->outputs) out.emplace_back(output.name);
      for (const onnx::Node& inner : graph->nodes) add_used_names(inner, out);
    }
}

// The names of all values that `outputs` depend on, and their own.
std::unordered_set<std::string_view> needed_names(const onnx::Graph& graph, const std::vector<std::string>& outputs) {
  std::unordered_map<std::string_view, const onnx::Node*> producers;
  for (const onnx::Node& node : graph.nodes)
    for (const std::string& name : node.outputs)
      if (!name.empty()) producers.emplace(name, &node);
  std::unordered_set<std::string_view> needed;
  std::unordered_set<const onnx::Node*> visited;
  std::vector<std::string_view> open(outputs.begin(), outputs.end());
  while (!open.empty()) {
    const std::string_view name = open.back();
    open.pop_back();
    if (!needed.insert(name).second) continue;
    auto producer = producers.find(name);
    if (producer != producers.end() && visited.insert(producer->second).second) add_used_names(*producer->second, open);
  }
  return needed;
}

std::vector<std::string> value_names(const onnx::Graph& graph) {
  std::vector<std::string> out;
  for (const ValueInfo& output : graph.outputs) out.push_back(output.name);  // first: the nearest of equals is taken
  for (const onnx::Node& node : graph.nodes)
    for (const std::string& name : node.outputs)
      if (!name.empty()) out.push_back(name);
  for (const ValueInfo& input : graph.inputs) out.push_back(input.name);
  for (const std::string_view name : initializer_names(graph)) out.emplace_back(name);
  return out;
}

// The model's declaration of a value, or a type that leaves everything open.
ValueInfo declaration(const onnx::Graph& graph, const std::string& name) {
  for (const auto* list : {&graph.outputs, &graph.value_info, &graph.inputs})
    for (const ValueInfo& info : *list)
      if (info.name == name) return info;
  ValueInfo out;
  out.name = name;
  for (const onnx::Tensor& tensor : graph.initializers) {
    if (tensor.name != name) continue;
    out.type = ValueInfo::Type::kTensor;
    out.dtype = tensor.dtype;
  }
  return out;
}

}  // namespace

void fix_dimensions(onnx::Model& model, const std::map<std::string, int64_t>& extents) {
  if (extents.empty()) return;
  const auto initializers = initializer_names(model.graph);
  std::unordered_set<std::string_view> known;
  for (const ValueInfo& input : model.graph.inputs)
    if (!initializers.contains(input.name))
      for (const onnx::Dimension& dim : input.dims)
        if (dim.value < 0) known.insert(dim.symbol);
  for (const auto& [symbol, extent] : extents)
    if (!known.contains(symbol)) refuse_symbol(model, symbol);
  for_each_type(model.graph, [&](ValueInfo& info) {
    for (onnx::Dimension& dim : info.dims)
      if (auto it = extents.find(dim.symbol); dim.value < 0 && it != extents.end()) dim.value = it->second;
  });
}

std::vector<std::string> input_names(const onnx::Model& model) {
  const auto initializers = initializer_names(model.graph);
  std::vector<std::string> out;
  for (const ValueInfo& input : model.graph.inputs)
    if (!initializers.contains(input.name)) out.push_back(input.name);
  return out;
}

const ValueInfo& find_input(const onnx::Model& model, const std::string& option, const std::string& name) {
  const std::vector<std::string> names = input_names(model);
  if (std::find(names.begin(), names.end(), name) != names.end())
    return *std::find_if(model.graph.inputs.begin(), model.graph.inputs.end(),
                         [&](const ValueInfo& input) { return input.name == name; });
  interface_error(fmt::format("{}: the model has no input '{}'{} (inputs: {})", option, name,
                              stream::did_you_mean(name, names), stream::listed(names)));
}

void freeze_inputs(onnx::Model& model, const std::map<std::string, stream::RecipeRef>& constants) {
  for (const auto& [name, recipe] : constants) {
    const ValueInfo& input = find_input(model, "--const", name);
    if (recipe->dtype != input.dtype)
      interface_error(fmt::format("--const {}: the value is {}, and the input is {}", name,
                                  stream::dtype_name(recipe->dtype), stream::dtype_name(input.dtype)));
    bool fits = !input.has_shape || input.dims.size() == recipe->dims.size();
    for (size_t i = 0; fits && i < input.dims.size(); ++i)
      fits = input.dims[i].value < 0 || input.dims[i].value == recipe->dims[i];
    if (!fits) {
      stream::Shape declared;
      for (const onnx::Dimension& dim : input.dims) declared.push_back(dim.value);
      interface_error(fmt::format("--const {}: the value has shape {}, and the input {}", name,
                                  stream::to_string(recipe->dims), stream::to_string(declared)));
    }
    model.graph.initializers.push_back({.name = name, .dtype = recipe->dtype, .dims = recipe->dims, .data = recipe});
    std::erase_if(model.graph.inputs, [&name = name](const ValueInfo& info) { return info.name == name; });
  }
}

size_t channel_axis(const ValueInfo& input, size_t values) {
  const size_t rank = input.dims.size();
  for (const size_t axis : {size_t{1}, rank - 1})
    if (rank >= 2 && axis < rank && input.dims[axis].value == static_cast<int64_t>(values)) return axis;
  stream::Shape shape;
  for (const onnx::Dimension& dim : input.dims) shape.push_back(dim.value);
  interface_error(
      fmt::format("--mean and --std have {} values, and neither axis 1 nor the last axis of '{}' {} has as many",
                  values, input.name, stream::to_string(shape)));
}

void take_raw_images(onnx::Model& model, const RawImages& images) {
  if (images.names.empty()) return;
  constexpr int64_t kOpset = 13;  // of the nodes that are added, whatever the model's own is
  onnx::Graph& graph = model.graph;
  ValueNames taken = all_value_names(graph);
  std::vector<onnx::Node> added;
  for (const std::string& name : images.names) {
    auto& input = const_cast<ValueInfo&>(find_input(model, "--input-uint8", name));
    if (input.dtype != stream::DType::kFloat32 && input.dtype != stream::DType::kFloat16)
      interface_error(
          fmt::format("--input-uint8 {}: the input is {}, not f32 or f16", name, stream::dtype_name(input.dtype)));
    for (const ValueInfo& output : graph.outputs)
      if (output.name == name) interface_error(fmt::format("--input-uint8 {}: the input is an output too", name));
    const std::string normal = new_value_name(name + "/normalized", taken);
    for (onnx::Node& node : graph.nodes) rename_uses(node, name, normal);
    input.dtype = stream::DType::kUint8;
    std::string last = name;
    auto add = [&](const char* op, std::vector<std::string> inputs, std::vector<onnx::Attribute> attributes) {
      onnx::Node node;
      node.name = fmt::format("{}/{}", name, op);
      node.op_type = op;
      node.opset = kOpset;
      node.inputs = std::move(inputs);
      last = new_value_name(node.name, taken);
      node.outputs = {last};
      node.attributes = std::move(attributes);
      added.push_back(std::move(node));
    };
    auto constant = [&](const char* what, const std::vector<float>& values) {
      stream::Shape shape(input.dims.size(), 1);
      if (values.size() > 1) shape[channel_axis(input, values.size())] = static_cast<int64_t>(values.size());
      std::string label = new_value_name(fmt::format("{}/{}", name, what), taken);
      graph.initializers.push_back({.name = label,
                                    .dtype = stream::DType::kFloat32,
                                    .dims = shape,
                                    .data = stream::recipe::floats(values, shape)});
      return label;
    };
    onnx::Attribute to;
    to.name = "to";
    to.type = onnx::Attribute::Type::kInt;
    to.i = 1;  // TensorProto.FLOAT
    add("Cast", {name}, {std::move(to)});
    auto all_are = [](const std::vector<float>& values, float one) {
      return std::all_of(values.begin(), values.end(), [&](float value) { return value == one; });
    };
    if (!all_are(images.mean, 0)) add("Sub", {last, constant("mean", images.mean)}, {});
    if (!all_are(images.std, 1)) add("Div", {last, constant("std", images.std)}, {});
    added.back().outputs = {normal};
  }
  graph.nodes.insert(graph.nodes.begin(), std::make_move_iterator(added.begin()), std::make_move_iterator(added.end()));
}

void choose_outputs(onnx::Model& model, const std::vector<std::string>& names) {
  if (names.empty()) return;
  onnx::Graph& graph = model.graph;
  const std::vector<std::string> values = value_names(graph);
  const std::unordered_set<std::string_view> known(values.begin(), values.end());
  std::vector<ValueInfo> chosen;
  std::unordered_set<std::string_view> seen;
  for (const std::string& name : names) {
    if (!known.contains(name)) {
      std::vector<std::string> outputs;
      for (const ValueInfo& output : graph.outputs) outputs.push_back(output.name);
      interface_error(fmt::format("--outputs: the graph has no value '{}'{} (outputs of the model: {})", name,
                                  stream::did_you_mean(name, values), stream::listed(outputs)));
    }
    if (!seen.insert(name).second) interface_error(fmt::format("--outputs: '{}' is given twice", name));
    chosen.push_back(declaration(graph, name));
  }
  {
    const auto needed = needed_names(graph, names);
    auto is_needed = [&](const std::string& name) { return !name.empty() && needed.contains(name); };
    // Marked before anything moves, because the set has views of the names.
    std::vector<bool> keep_node, keep_input;
    for (const onnx::Node& node : graph.nodes)
      keep_node.push_back(std::any_of(node.outputs.begin(), node.outputs.end(), is_needed));
    for (const ValueInfo& input : graph.inputs) keep_input.push_back(is_needed(input.name));
    auto keep = [](auto& list, const std::vector<bool>& marks) {
      size_t kept = 0;
      for (size_t i = 0; i < list.size(); ++i) {
        if (!marks[i]) continue;
        if (kept != i) list[kept] = std::move(list[i]);
        ++kept;
      }
      list.resize(kept);
    };
    keep(graph.nodes, keep_node);
    keep(graph.inputs, keep_input);
  }
  graph.outputs = std::move(chosen);
}

}  // namespace lowtide::layout
