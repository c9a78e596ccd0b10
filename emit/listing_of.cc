// SPDX-License-Identifier: Apache-2.0
// The listings of an ONNX model, of a core model, and of a TFLite file.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <set>
#include <string_view>

#include "emit/listing.h"
#include "emit/tensor_names.h"

namespace lowtide::emit {
namespace {

// Of attributes with more elements than this only the number of elements is shown.
constexpr size_t kShownElements = 16;

template <typename T>
std::string numbers(const std::vector<T>& values) {
  if (values.size() > kShownElements) return fmt::format("[{} elements]", values.size());
  return fmt::format("[{}]", fmt::join(values, ","));
}
ListedExtent extent(stream::Dim dim, const std::string& name) {
  return dim < 0 ? ListedExtent(name) : ListedExtent(dim);
}
std::vector<ListedExtent> extents(const stream::Shape& shape) {
  std::vector<ListedExtent> out;
  for (stream::Dim dim : shape) out.push_back(extent(dim, "?"));
  return out;
}

// ---- ONNX ----

ListedTensor listed(const onnx::ValueInfo& value) {
  ListedTensor out{value.name, "", {}, 0};
  if (value.dtype != stream::DType::kUndefined) out.dtype = stream::dtype_name(value.dtype);
  for (const onnx::Dimension& dim : value.dims)
    out.shape.push_back(extent(dim.value, dim.symbol.empty() ? "?" : dim.symbol));
  if (!value.has_shape) out.shape.emplace_back("...");
  return out;
}

ListedTensor listed(const onnx::Tensor& tensor) {
  ListedTensor out{tensor.name, std::string(stream::dtype_name(tensor.dtype)), extents(tensor.dims), 0};
  if (tensor.data) out.bytes = tensor.data->bytes();
  for (const std::string& text : tensor.strings) out.bytes += text.size();
  return out;
}

// The double that prints as the float does.
double shortest(float number) {
  if (!std::isfinite(number)) return static_cast<double>(number);
  const std::string digits = fmt::format("{}", number);
  double out = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), out);
  return out;
}
std::vector<double> shortest(const std::vector<float>& numbers) {
  std::vector<double> out;
  for (const float number : numbers) out.push_back(shortest(number));
  return out;
}

// A list, whose elements are given where they are shown.
template <typename T, typename U>
ListedValue list_value(const std::vector<T>& shown, const std::vector<U>& plain) {
  if (shown.size() > kShownElements) return numbers(shown);
  return {numbers(shown), ListedValue::Plain(plain)};
}

ListedValue listed_value(const onnx::Attribute& attribute) {
  using Type = onnx::Attribute::Type;
  if (!attribute.reference.empty()) return "@" + attribute.reference;
  switch (attribute.type) {
    case Type::kFloat:
      return {fmt::format("{}", attribute.f), shortest(attribute.f)};
    case Type::kInt:
      return attribute.i;
    case Type::kString:
      return {fmt::format("\"{}\"", attribute.s), attribute.s};
    case Type::kFloats:
      return list_value(attribute.floats, shortest(attribute.floats));
    case Type::kInts:
      return list_value(attribute.ints, attribute.ints);
    case Type::kStrings:
      return list_value(attribute.strings, attribute.strings);
    case Type::kTensor: {
      ListedTensor tensor = listed(attribute.tensors.at(0));
      return fmt::format("{}[{}]", tensor.dtype, joined(tensor.shape));
    }
    case Type::kGraph:
      return fmt::format("graph '{}'", attribute.graphs.at(0)->name);
    default:
      return "...";
  }
}

ListedOp listed(const onnx::Node& node) {
  ListedOp out;
  out.op = node.domain.empty() ? node.op_type : node.domain + "." + node.op_type;
  out.name = node.name;
  out.inputs = node.inputs;
  out.outputs = node.outputs;
  for (const onnx::Attribute& attribute : node.attributes)
    out.attributes.emplace_back(attribute.name, listed_value(attribute));
  return out;
}

// Before this version of the file format every initializer is listed among the inputs too.
constexpr int64_t kFirstIrWithSeparateInitializers = 4;

// Inputs that a user gives: not those that are listed because they are initializers.
std::vector<ListedTensor> real_inputs(const onnx::Graph& graph) {
  std::set<std::string_view> constants;
  for (const auto& tensor : graph.initializers) constants.insert(tensor.name);
  for (const auto& sparse : graph.sparse_initializers) constants.insert(sparse.values.name);
  std::vector<ListedTensor> out;
  for (const auto& value : graph.inputs)
    if (!constants.contains(value.name)) out.push_back(listed(value));
  return out;
}

// A graph, and after it those inside its nodes.
void add_graph(const onnx::Graph& graph, std::vector<ListedGraph>& out) {
  ListedGraph listed_graph;
  listed_graph.name = graph.name;
  for (const auto& value : graph.inputs) listed_graph.inputs.push_back(listed(value));
  for (const auto& value : graph.outputs) listed_graph.outputs.push_back(listed(value));
  for (const auto& tensor : graph.initializers) listed_graph.constants.push_back(listed(tensor));
  for (const auto& sparse : graph.sparse_initializers) listed_graph.constants.push_back(listed(sparse.values));
  for (const auto& node : graph.nodes) listed_graph.ops.push_back(listed(node));
  out.push_back(std::move(listed_graph));
  for (const auto& node : graph.nodes)
    for (const auto& attribute : node.attributes)
      for (const auto& inner : attribute.graphs) add_graph(*inner, out);
}

// ---- core ----

ListedTensor listed(const core::Graph& graph, core::ValueId id, const std::vector<std::string>& names) {
  const core::Value& value = graph.at(id);
  ListedTensor out{names[static_cast<size_t>(id)], std::string(stream::dtype_name(value.dtype)), {}, 0};
  for (core::Dim dim : value.shape) out.shape.push_back(extent(dim, graph.symbols.to_string(dim)));
  if (value.constant) out.bytes = value.constant->bytes();
  return out;
}

// ---- TFLite ----

ListedTensor listed(const tfl::Tensor& tensor) {
  ListedTensor out{tensor.name, std::string(tensor.type), {}, tensor.data_bytes};
  if (tensor.dtype != stream::DType::kUndefined) out.dtype = stream::dtype_name(tensor.dtype);
  out.shape = extents(tensor.shape_signature.empty() ? tensor.shape : tensor.shape_signature);
  return out;
}

ListedValue listed_value(const tfl::Option& option) {
  if (!option.enumerator.empty()) return std::string(option.enumerator);
  struct Visitor {
    ListedValue operator()(bool value) const { return {value ? "true" : "false", value}; }
    ListedValue operator()(int64_t value) const { return value; }
    ListedValue operator()(double value) const {
      return {fmt::format("{}", static_cast<float>(value)), shortest(static_cast<float>(value))};
    }
    ListedValue operator()(const std::string& value) const { return {fmt::format("\"{}\"", value), value}; }
    ListedValue operator()(const std::vector<int64_t>& value) const { return list_value(value, value); }
    ListedValue operator()(const std::vector<double>& value) const { return list_value(value, value); }
  };
  return std::visit(Visitor(), option.value);
}

ListedOp listed(const tfl::Subgraph& graph, const tfl::Operator& op) {
  ListedOp out;
  out.op = op.name;
  for (int32_t i : op.inputs) out.inputs.push_back(i < 0 ? "" : graph.tensors[static_cast<size_t>(i)].name);
  for (int32_t i : op.outputs) {
    const tfl::Tensor& tensor = graph.tensors[static_cast<size_t>(i)];
    out.outputs.push_back(tensor.name);
    out.results.push_back(listed(tensor));
  }
  if (op.version != 1) out.attributes.emplace_back("version", int64_t{op.version});
  for (const tfl::Option& option : op.options) out.attributes.emplace_back(option.name, listed_value(option));
  if (op.custom_bytes > 0)
    out.attributes.emplace_back("custom_options",
                                ListedValue(fmt::format("{} bytes", op.custom_bytes), op.custom_bytes));
  return out;
}

// LiteRT runs such operators; the constant is then never read.
std::string written_constants(const tfl::Subgraph& graph) {
  std::vector<std::string> found;
  size_t count = 0;
  for (size_t i = 0; i < graph.operators.size(); ++i)
    for (const int32_t output : graph.operators[i].outputs) {
      const tfl::Tensor& tensor = graph.tensors[static_cast<size_t>(output)];
      if (tensor.has_data && ++count <= 3) found.push_back(fmt::format("operator {} writes to '{}'", i, tensor.name));
    }
  if (count > found.size()) found.push_back(fmt::format("{} more", count - found.size()));
  return found.empty() ? "" : fmt::format("operators write to tensors with constant data: {}", fmt::join(found, ", "));
}

}  // namespace

Listing listing(const onnx::Model& model) {
  Listing out;
  out.format = "ONNX";
  out.facts.emplace_back("IR version", model.ir_version);
  for (const auto& [domain, version] : model.opsets)
    out.facts.emplace_back("opset " + (domain.empty() ? "ai.onnx" : domain), version);
  if (!model.producer_name.empty())
    out.facts.emplace_back("producer", model.producer_version.empty()
                                           ? model.producer_name
                                           : model.producer_name + " " + model.producer_version);
  out.facts.emplace_back("file bytes", model.file_bytes);
  out.facts.emplace_back("external bytes", model.external_bytes);
  for (const auto& [name, value] : model.metadata) out.facts.emplace_back("metadata " + name, value);
  add_graph(model.graph, out.graphs);
  if (model.ir_version < kFirstIrWithSeparateInitializers) out.graphs[0].inputs = real_inputs(model.graph);
  for (const onnx::Function& function : model.functions) {
    ListedGraph graph;
    graph.name = "function " + (function.domain.empty() ? function.name : function.domain + "." + function.name);
    for (const std::string& name : function.inputs) graph.inputs.push_back({name, "", {}, 0});
    for (const std::string& name : function.outputs) graph.outputs.push_back({name, "", {}, 0});
    for (const onnx::Node& node : function.nodes) graph.ops.push_back(listed(node));
    out.graphs.push_back(std::move(graph));
  }
  return out;
}

Listing listing(const core::Model& model) {
  Listing out;
  out.format = "core";
  for (const auto& pointer : model.graphs) {
    const core::Graph& graph = *pointer;
    ListedGraph listed_graph;
    listed_graph.name = graph.name;
    std::vector<std::string> names = tensor_names(graph);
    for (core::ValueId id : graph.inputs) listed_graph.inputs.push_back(listed(graph, id, names));
    for (core::ValueId id : graph.outputs) listed_graph.outputs.push_back(listed(graph, id, names));
    std::vector<bool> seen(graph.values.size(), false);
    for (const core::Op& op : graph.ops) {
      ListedOp listed_op;
      listed_op.op = core::kind_name(op.kind);
      listed_op.name = graph.origins[op.origin];
      for (core::ValueId id : op.inputs) {
        listed_op.inputs.push_back(id == core::kAbsent ? "" : names[static_cast<size_t>(id)]);
        if (id == core::kAbsent || !graph.at(id).is_constant() || seen[static_cast<size_t>(id)]) continue;
        seen[static_cast<size_t>(id)] = true;
        listed_graph.constants.push_back(listed(graph, id, names));
      }
      for (core::ValueId id : op.outputs) {
        listed_op.outputs.push_back(names[static_cast<size_t>(id)]);
        listed_op.results.push_back(listed(graph, id, names));
      }
      listed_graph.ops.push_back(std::move(listed_op));
    }
    out.graphs.push_back(std::move(listed_graph));
  }
  return out;
}

Listing listing(const tfl::Model& model) {
  Listing out;
  out.format = "TFLite";
  out.facts.emplace_back("schema version", uint64_t{model.version});
  out.facts.emplace_back("description", model.description);
  out.facts.emplace_back("file bytes", model.file_bytes);
  out.facts.emplace_back("buffers", model.external_buffers ? "behind the flatbuffer" : "inline");
  for (const tfl::ExternalFile& file : model.external_files)
    out.facts.emplace_back("weights in " + file.name,
                           fmt::format("{} bytes{}{}", file.bytes, file.problem.empty() ? "" : ", ", file.problem));
  for (const auto& [name, value] : model.metadata) out.facts.emplace_back("metadata " + name, value);
  for (const std::string& note : model.notes) out.facts.emplace_back("note", note);
  for (const tfl::Subgraph& graph : model.subgraphs)
    if (const std::string note = written_constants(graph); !note.empty())
      out.facts.emplace_back(fmt::format("note on {}", graph.name.empty() ? "the graph" : graph.name), note);
  for (const tfl::Signature& signature : model.signatures) {
    std::vector<std::string> names;
    for (const auto& input : signature.inputs) names.push_back(input.first);
    std::string line = fmt::format("({})", fmt::join(names, ", "));
    names.clear();
    for (const auto& output : signature.outputs) names.push_back(output.first);
    out.facts.emplace_back("signature " + signature.key, fmt::format("{} -> ({})", line, fmt::join(names, ", ")));
  }
  for (const tfl::Subgraph& graph : model.subgraphs) {
    ListedGraph listed_graph;
    listed_graph.name = graph.name;
    for (int32_t i : graph.inputs) listed_graph.inputs.push_back(listed(graph.tensors[static_cast<size_t>(i)]));
    for (int32_t i : graph.outputs) listed_graph.outputs.push_back(listed(graph.tensors[static_cast<size_t>(i)]));
    for (const tfl::Tensor& tensor : graph.tensors)
      if (tensor.has_data) listed_graph.constants.push_back(listed(tensor));
    for (const tfl::Operator& op : graph.operators) listed_graph.ops.push_back(listed(graph, op));
    out.graphs.push_back(std::move(listed_graph));
  }
  return out;
}

}  // namespace lowtide::emit
