// SPDX-License-Identifier: Apache-2.0
// Operators that call subgraphs: STABLEHLO_COMPOSITE, IF, WHILE.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "layout/raise/import_graph.h"
#include "layout/raise/import_values.h"
#include "layout/raise/options.h"
#include "stream/error.h"

namespace lowtide::layout {
namespace {

using stream::Unsupported;

constexpr int kMostNested = 16;  // subgraphs inside subgraphs

}  // namespace

void GraphImport::composite(SubgraphScope& scope, const tfl::Operator& op, size_t index) {
  if (op.options_table != "StableHLOCompositeOptions") malformed_model("it has no decomposition");
  const int called = int_option(op, "decomposition_subgraph_index", -1);
  if (called < 0 || static_cast<size_t>(called) >= model_.subgraphs.size())
    malformed_model(fmt::format("its decomposition, subgraph {}, does not exist", called));
  if (scope.depth >= kMostNested)
    throw Unsupported(fmt::format("composites are nested more than {} deep", kMostNested));
  const tfl::Subgraph& from = model_.subgraphs[static_cast<size_t>(called)];
  if (from.inputs.size() != op.inputs.size() || from.outputs.size() != op.outputs.size())
    malformed_model(fmt::format("its decomposition has {} inputs and {} outputs in place of {} and {}",
                                from.inputs.size(), from.outputs.size(), op.inputs.size(), op.outputs.size()));
  SubgraphScope inner{from, std::vector<ValueId>(from.tensors.size(), kNotMade),
                      fmt::format("{}{}.", scope.label, index), scope.depth + 1};
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const ValueId given = value(scope, op.inputs[i]);
    if (given == kAbsent) malformed_model("one of its inputs is absent");
    const tfl::Tensor& wanted = from.tensors[static_cast<size_t>(from.inputs[i])];
    if (graph_.at(given).dtype != wanted.dtype || graph_.at(given).shape != wanted.shape)
      throw Unsupported(fmt::format("input {} differs in type or shape from the decomposition's", i));
    inner.values[static_cast<size_t>(from.inputs[i])] = given;
  }
  operators(inner);
  for (size_t i = 0; i < op.outputs.size(); ++i)
    scope.values[static_cast<size_t>(op.outputs[i])] = value(inner, from.outputs[i]);
}

uint32_t GraphImport::called_by(const SubgraphScope& scope, const tfl::Operator& op, const char* option) const {
  const int called = int_option(op, option, -1);
  if (called < 0 || static_cast<size_t>(called) >= model_.subgraphs.size())
    malformed_model(fmt::format("option {}: subgraph {} does not exist", option, called));
  if (scope.depth >= kMostNested) throw Unsupported(fmt::format("subgraphs are nested more than {} deep", kMostNested));
  return static_cast<uint32_t>(called);
}

void GraphImport::check_ports(uint32_t called, size_t inputs, size_t outputs) const {
  const tfl::Subgraph& from = model_.subgraphs[called];
  if (from.inputs.size() != inputs || from.outputs.size() != outputs)
    malformed_model(fmt::format("subgraph {} has {} inputs and {} outputs in place of {} and {}", called,
                                from.inputs.size(), from.outputs.size(), inputs, outputs));
}

std::vector<ValueId> GraphImport::all_inputs(SubgraphScope& scope, const tfl::Operator& op) {
  std::vector<ValueId> inputs = values(scope, op.inputs);
  if (std::count(inputs.begin(), inputs.end(), kAbsent) > 0) malformed_model("one of its inputs is absent");
  return inputs;
}

GraphImport::Given GraphImport::given(ValueId id) const {
  const core::Value& value = graph_.at(id);
  return {{value.dtype, value.shape, std::nullopt}, value.quantization, value.constant};
}

size_t GraphImport::called_graph(SubgraphScope& scope, uint32_t called, std::span<const Given> inputs, size_t index) {
  const size_t made = shared_.out.graphs.size();
  GraphImport inner(shared_);
  inner.run_called(called, inputs, fmt::format("{}{}.", scope.label, index), scope.depth + 1);
  return made;
}

const core::Graph& GraphImport::made_graph(size_t index) const { return *shared_.out.graphs[index]; }

bool GraphImport::widen(Shape& shape, const Shape& other) {
  if (shape.size() != other.size()) throw Unsupported("the rank of a result is known at run time only");
  bool changed = false;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == other[i] || core::is_symbol(shape[i])) continue;
    shape[i] = graph_.symbols.fresh("run_time_dim");
    changed = true;
  }
  return changed;
}

void GraphImport::add_call(SubgraphScope& scope, Kind kind, std::vector<ValueId> inputs, core::SubgraphOptions options,
                           std::span<const Given> types, std::span<const int32_t> outputs) {
  core::Op op{.kind = kind,
              .inputs = std::move(inputs),
              .outputs = {},
              .options = options,
              .origin = static_cast<uint32_t>(graph_.origins.size() - 1)};
  for (size_t i = 0; i < types.size(); ++i) {
    const tfl::Tensor& tensor = scope.from.tensors[static_cast<size_t>(outputs[i])];
    need_numbers(tensor);
    if (types[i].type.dtype != tensor.dtype || !same_numbers(types[i].quantization, quantization_of(tensor)))
      throw Unsupported(fmt::format("output '{}' differs in type or scale from the subgraph's", tensor.name));
    check_shape(types[i].type.shape, tensor);
    const ValueId id = graph_.add_value(tensor.dtype, types[i].type.shape, tensor.name);
    graph_.at(id).quantization = types[i].quantization;
    graph_.at(id).producer = static_cast<core::OpId>(graph_.ops.size());
    op.outputs.push_back(id);
    scope.values[static_cast<size_t>(outputs[i])] = id;
  }
  graph_.ops.push_back(std::move(op));
}

GraphImport::Given GraphImport::result_of(const core::Graph& graph, size_t i) {
  const core::Value& value = graph.at(graph.outputs[i]);
  return {{value.dtype, value.shape, std::nullopt}, value.quantization, nullptr};
}

void GraphImport::branches(SubgraphScope& scope, const tfl::Operator& op, size_t index) {
  if (op.options_table != "IfOptions") malformed_model("it has no IfOptions");
  const std::vector<ValueId> inputs = all_inputs(scope, op);
  if (inputs.empty() || op.outputs.empty()) malformed_model("IF needs a condition and an output");
  if (graph_.at(inputs[0]).dtype != DType::kBool) malformed_model("the condition is no bool");
  const std::array called = {called_by(scope, op, "then_subgraph_index"), called_by(scope, op, "else_subgraph_index")};
  std::vector<Given> arguments;
  std::vector<ValueId> passed = {inputs[0]};
  for (size_t i = 1; i < inputs.size(); ++i) {
    arguments.push_back(given(inputs[i]));
    if (!arguments.back().constant) passed.push_back(inputs[i]);
  }
  for (uint32_t one : called) check_ports(one, arguments.size(), op.outputs.size());
  const size_t refused = refused_.size();
  const size_t yes = called_graph(scope, called[0], arguments, index);
  const size_t no = called_graph(scope, called[1], arguments, index);
  if (refused_.size() > refused) return use_types_of_file(scope, op);
  std::vector<Given> types;
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    types.push_back(result_of(made_graph(yes), i));
    const Given other = result_of(made_graph(no), i);
    if (types[i].type.dtype != other.type.dtype || !same_numbers(types[i].quantization, other.quantization))
      throw Unsupported(fmt::format("output {} differs in type or scale between both branches", i));
    widen(types[i].type.shape, other.type.shape);
  }
  add_call(scope, Kind::kIf, std::move(passed), {static_cast<int>(yes), static_cast<int>(no)}, types, op.outputs);
}

void GraphImport::loop(SubgraphScope& scope, const tfl::Operator& op, size_t index) {
  if (op.options_table != "WhileOptions") malformed_model("it has no WhileOptions");
  const std::vector<ValueId> inputs = all_inputs(scope, op);
  const uint32_t condition = called_by(scope, op, "cond_subgraph_index");
  const uint32_t body = called_by(scope, op, "body_subgraph_index");
  check_ports(condition, inputs.size(), 1);
  check_ports(body, inputs.size(), inputs.size());
  if (op.outputs.size() != inputs.size())
    malformed_model(fmt::format("it has {} outputs in place of {}", op.outputs.size(), inputs.size()));
  const tfl::Subgraph& from = model_.subgraphs[body];
  std::vector<Given> arguments;
  std::vector<ValueId> carried, read;
  std::vector<size_t> carried_places;
  std::vector<int32_t> outputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    arguments.push_back(given(inputs[i]));
    if (from.outputs[i] == from.inputs[i]) {
      if (!arguments[i].constant) read.push_back(inputs[i]);
      continue;
    }
    arguments[i].constant = nullptr;
    carried.push_back(inputs[i]);
    carried_places.push_back(i);
    outputs.push_back(op.outputs[i]);
  }
  if (carried.empty()) throw Unsupported("the body changes no value");
  const std::optional<std::pair<size_t, size_t>> graphs =
      loop_graphs(scope, {condition, body}, arguments, carried_places, index);
  if (!graphs) return use_types_of_file(scope, op);
  // The graphs' inputs stand as the op's: changed ones first.
  std::vector<Given> types;
  for (size_t place : carried_places) types.push_back(arguments[place]);
  for (size_t made : {graphs->first, graphs->second}) order_ports(*shared_.out.graphs[made], arguments, carried_places);
  keep_outputs(*shared_.out.graphs[graphs->second], carried_places);
  carried.insert(carried.end(), read.begin(), read.end());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (from.outputs[i] == from.inputs[i]) scope.values[static_cast<size_t>(op.outputs[i])] = inputs[i];
  add_call(scope, Kind::kWhile, std::move(carried), {static_cast<int>(graphs->first), static_cast<int>(graphs->second)},
           types, outputs);
}

std::optional<std::pair<size_t, size_t>> GraphImport::loop_graphs(SubgraphScope& scope,
                                                                  std::pair<uint32_t, uint32_t> called,
                                                                  std::vector<Given>& arguments,
                                                                  std::span<const size_t> carried, size_t index) {
  const size_t refused = refused_.size();
  for (;;) {
    const size_t first = shared_.out.graphs.size();
    const size_t body = called_graph(scope, called.second, arguments, index);
    if (refused_.size() > refused) return std::nullopt;
    bool changed = false;
    for (size_t place : carried) {
      const Given result = result_of(made_graph(body), place);
      Given& argument = arguments[place];
      if (result.type.dtype != argument.type.dtype || !same_numbers(result.quantization, argument.quantization))
        throw Unsupported(fmt::format("value {} has another type or scale after a turn", place));
      changed = widen(argument.type.shape, result.type.shape) || changed;
    }
    if (changed) {
      shared_.out.graphs.resize(first);
      continue;
    }
    const size_t condition = called_graph(scope, called.first, arguments, index);
    if (refused_.size() > refused) return std::nullopt;
    const core::Value& answer = made_graph(condition).at(made_graph(condition).outputs[0]);
    if (answer.dtype != DType::kBool) malformed_model("the condition is no bool");
    if (stream::is_static(answer.shape) && stream::element_count(answer.shape) != 1)
      malformed_model("the condition has more than one element");
    return std::pair(condition, body);
  }
}

void GraphImport::order_ports(core::Graph& graph, std::span<const Given> arguments, std::span<const size_t> carried) {
  std::vector<ValueId> first, rest;
  std::vector<std::string> first_names, rest_names;
  size_t next = 0;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].constant) continue;
    const bool is_first = std::binary_search(carried.begin(), carried.end(), i);
    (is_first ? first : rest).push_back(graph.inputs[next]);
    (is_first ? first_names : rest_names).push_back(graph.input_names[next]);
    ++next;
  }
  first.insert(first.end(), rest.begin(), rest.end());
  first_names.insert(first_names.end(), rest_names.begin(), rest_names.end());
  graph.inputs = std::move(first);
  graph.input_names = std::move(first_names);
}

void GraphImport::keep_outputs(core::Graph& graph, std::span<const size_t> places) {
  std::vector<ValueId> outputs;
  std::vector<std::string> names;
  for (size_t place : places) {
    outputs.push_back(graph.outputs[place]);
    names.push_back(graph.output_names[place]);
  }
  graph.outputs = std::move(outputs);
  graph.output_names = std::move(names);
}

}  // namespace lowtide::layout
