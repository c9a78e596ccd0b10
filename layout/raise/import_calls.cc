// SPDX-License-Identifier: Apache-2.0
// Operators that call subgraphs: STABLEHLO_COMPOSITE, IF, WHILE.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include "layout/raise/import_graph.h"
#include "layout/raise/import_values.h"
#include "layout/raise/options.h"
#include "stream/error.h"

namespace lowtide::layout {
namespace {

using stream::Unsupported;

constexpr int kMostNested = 16;  // subgraphs inside subgraphs

void need_one_answer(const core::Value& condition) {
  if (condition.dtype != DType::kBool) malformed_model("the condition is no bool");
  if (stream::is_static(condition.shape) && stream::element_count(condition.shape) != 1)
    malformed_model(
        fmt::format("the condition has {} elements in place of one", stream::element_count(condition.shape)));
}

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
    const ValueId id = value(scope, op.inputs[i]);
    if (id == kAbsent) malformed_model("one of its inputs is absent");
    const tfl::Tensor& wanted = from.tensors[static_cast<size_t>(from.inputs[i])];
    check_given(given(id), wanted, static_cast<uint32_t>(called));
    inner.values[static_cast<size_t>(from.inputs[i])] = id;
  }
  operators(inner);
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    const tfl::Tensor& wanted = scope.from.tensors[static_cast<size_t>(op.outputs[i])];
    const ValueId made = value(inner, from.outputs[i]);
    need_numbers(wanted);
    if (graph_.at(made).dtype != wanted.dtype || graph_.at(made).quantization != quantization_of(wanted))
      throw Unsupported(fmt::format("output {} differs in type or scale from the decomposition's", i));
    compare_shape(graph_.at(made).shape, wanted);
    scope.values[static_cast<size_t>(op.outputs[i])] = made;
  }
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

size_t GraphImport::called_graph(SubgraphScope& scope, uint32_t called, std::span<const Given> inputs,
                                 const PassedVariables& variables, size_t index) {
  const size_t made = shared_.out.graphs.size();
  GraphImport inner(shared_);
  inner.run_called(called, inputs, variables, fmt::format("{}{}.", scope.label, index), scope.depth + 1);
  return made;
}

const core::Graph& GraphImport::made_graph(size_t index) const { return *shared_.out.graphs[index]; }

bool GraphImport::widen(Shape& shape, const Shape& other, std::set<core::Dim>& open) {
  if (shape.size() != other.size()) throw Unsupported("the rank of a result is known at run time only");
  bool changed = false;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == other[i] || open.contains(shape[i])) continue;
    shape[i] = graph_.symbols.fresh("run_time_dim");
    open.insert(shape[i]);
    changed = true;
  }
  return changed;
}

std::vector<ValueId> GraphImport::add_call(SubgraphScope& scope, Kind kind, std::vector<ValueId> inputs,
                                           core::SubgraphOptions options, std::span<const Given> types,
                                           std::span<const int32_t> outputs) {
  core::Op op{.kind = kind,
              .inputs = std::move(inputs),
              .outputs = {},
              .options = options,
              .origin = static_cast<uint32_t>(graph_.origins.size() - 1)};
  for (size_t i = 0; i < types.size(); ++i) {
    const tfl::Tensor* tensor = i < outputs.size() ? &scope.from.tensors[static_cast<size_t>(outputs[i])] : nullptr;
    if (tensor) {
      need_numbers(*tensor);
      if (types[i].type.dtype != tensor->dtype || types[i].quantization != quantization_of(*tensor))
        throw Unsupported(fmt::format("output '{}' differs in type or scale from the subgraph's", tensor->name));
      compare_shape(types[i].type.shape, *tensor);
    }
    const ValueId id =
        graph_.add_value(types[i].type.dtype, types[i].type.shape, tensor ? tensor->name : std::string());
    set_scales(id, types[i].quantization);
    graph_.at(id).producer = static_cast<core::OpId>(graph_.ops.size());
    op.outputs.push_back(id);
    if (tensor) scope.values[static_cast<size_t>(outputs[i])] = id;
  }
  std::vector<ValueId> others(op.outputs.begin() + static_cast<std::ptrdiff_t>(outputs.size()), op.outputs.end());
  graph_.add_op(std::move(op));
  return others;
}

GraphImport::Given GraphImport::result_of(const core::Graph& graph, size_t i) {
  const core::Value& value = graph.at(graph.outputs[i]);
  return {{value.dtype, value.shape, std::nullopt}, value.quantization, nullptr};
}

void GraphImport::branches(SubgraphScope& scope, const tfl::Operator& op, size_t index) {
  if (op.options_table != "IfOptions") malformed_model("it has no IfOptions");
  if (op.inputs.empty() || op.inputs[0] < 0) malformed_model("IF needs a condition");
  PassedVariables variables{.handles = passed_handles(scope, op, 1), .names = {}, .are_results = true};
  const ValueId condition = value(scope, op.inputs[0]);
  need_one_answer(graph_.at(condition));
  const std::array called = {called_by(scope, op, "then_subgraph_index"), called_by(scope, op, "else_subgraph_index")};
  for (uint32_t one : called) check_ports(one, op.inputs.size() - 1, op.outputs.size());
  std::vector<Given> arguments;
  std::vector<ValueId> passed = {condition};
  const auto pass = [&](ValueId id) {
    arguments.push_back(given(id));
    if (!arguments.back().constant) passed.push_back(id);
  };
  for (size_t i = 1; i < op.inputs.size(); ++i) {
    if (op.inputs[i] < 0) malformed_model("one of its inputs is absent");
    if (!variables.handles.contains(i - 1)) pass(value(scope, op.inputs[i]));
  }
  VariableUses uses = uses_of_called(called[0], variables.handles, scope.depth);
  for (const auto& [name, use] : uses_of_called(called[1], variables.handles, scope.depth)) {
    VariableUse& both = uses.try_emplace(name, use).first->second;
    both.is_assigned = both.is_assigned || use.is_assigned;
  }
  std::vector<size_t> kept(op.outputs.size());  // of the branches' outputs
  std::iota(kept.begin(), kept.end(), size_t{0});
  std::vector<std::string> assigned;
  for (const auto& [name, use] : uses) {
    pass(variable_now(name, *use.like));
    if (use.is_assigned) kept.push_back(op.outputs.size() + variables.names.size());
    if (use.is_assigned) assigned.push_back(name);
    variables.names.push_back(name);
  }
  if (kept.empty()) malformed_model("IF needs an output, or a variable that it assigns");
  const size_t refused = refused_.size();
  const size_t yes = called_graph(scope, called[0], arguments, variables, index);
  const size_t no = called_graph(scope, called[1], arguments, variables, index);
  if (refused_.size() > refused) return use_types_of_file(scope, op);
  std::vector<Given> types;
  std::set<core::Dim> open;
  for (size_t made : {yes, no}) {
    core::Graph& graph = *shared_.out.graphs[made];
    if (graph.outputs.size() != op.outputs.size() + variables.names.size())
      throw Unsupported("a branch gives the handle of a variable");
    keep_outputs(graph, kept);
  }
  for (size_t i = 0; i < kept.size(); ++i) {
    types.push_back(result_of(made_graph(yes), i));
    const Given other = result_of(made_graph(no), i);
    if (types[i].type.dtype != other.type.dtype || types[i].quantization != other.quantization)
      throw Unsupported(fmt::format("output {} differs in type or scale between both branches", i));
    widen(types[i].type.shape, other.type.shape, open);
  }
  const std::vector<ValueId> others =
      add_call(scope, Kind::kIf, std::move(passed), {static_cast<int>(yes), static_cast<int>(no)}, types, op.outputs);
  for (size_t i = 0; i < others.size(); ++i) {
    variables_[assigned[i]].value = others[i];
    variables_[assigned[i]].is_assigned = true;
  }
}

void GraphImport::loop(SubgraphScope& scope, const tfl::Operator& op, size_t index) {
  if (op.options_table != "WhileOptions") malformed_model("it has no WhileOptions");
  const uint32_t condition = called_by(scope, op, "cond_subgraph_index");
  const uint32_t body = called_by(scope, op, "body_subgraph_index");
  check_ports(condition, op.inputs.size(), 1);
  check_ports(body, op.inputs.size(), op.inputs.size());
  if (op.outputs.size() != op.inputs.size())
    malformed_model(fmt::format("it has {} outputs in place of {}", op.outputs.size(), op.inputs.size()));
  const tfl::Subgraph& from = model_.subgraphs[body];
  PassedVariables variables{.handles = passed_handles(scope, op, 0), .names = {}};
  for (const auto& [place, name] : variables.handles) {
    if (from.outputs[place] != from.inputs[place]) throw Unsupported("a turn changes the handle of a variable");
    handles_[{&scope.from, op.outputs[place]}] = name;
  }
  std::vector<Given> arguments;
  std::vector<ValueId> carried, read;
  std::vector<size_t> carried_places;  // among the arguments
  std::vector<int32_t> outputs;
  const auto pass = [&](ValueId id, bool is_carried) {
    arguments.push_back(given(id));
    if (is_carried) {
      arguments.back().constant = nullptr;
      carried.push_back(id);
      carried_places.push_back(arguments.size() - 1);
    } else if (!arguments.back().constant) {
      read.push_back(id);
    }
  };
  std::vector<std::pair<int32_t, ValueId>> unchanged;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (op.inputs[i] < 0) malformed_model("one of its inputs is absent");
    if (variables.handles.contains(i)) continue;
    const ValueId id = value(scope, op.inputs[i]);
    const bool is_carried = from.outputs[i] != from.inputs[i];
    pass(id, is_carried);
    if (is_carried)
      outputs.push_back(op.outputs[i]);
    else
      unchanged.emplace_back(op.outputs[i], id);
  }
  VariableUses uses = uses_of_called(body, variables.handles, scope.depth);
  for (const auto& [name, use] : uses_of_called(condition, variables.handles, scope.depth)) {
    if (use.is_assigned) throw Unsupported(fmt::format("the condition assigns the variable '{}'", name));
    uses.try_emplace(name, use);
  }
  std::vector<std::string> assigned;
  for (const auto& [name, use] : uses) {
    pass(variable_now(name, *use.like), use.is_assigned);
    if (use.is_assigned) assigned.push_back(name);
    variables.names.push_back(name);
  }
  if (carried.empty()) throw Unsupported("the body changes no value");
  const std::optional<std::pair<size_t, size_t>> graphs =
      loop_graphs(scope, {condition, body}, arguments, carried_places, variables, index);
  if (!graphs) return use_types_of_file(scope, op);
  // The graphs' inputs stand as the op's: changed ones first.
  std::vector<Given> types;
  for (size_t place : carried_places) types.push_back(arguments[place]);
  for (size_t made : {graphs->first, graphs->second}) order_ports(*shared_.out.graphs[made], arguments, carried_places);
  keep_outputs(*shared_.out.graphs[graphs->second], carried_places);
  carried.insert(carried.end(), read.begin(), read.end());
  for (const auto& [output, id] : unchanged) scope.values[static_cast<size_t>(output)] = id;
  const std::vector<ValueId> others =
      add_call(scope, Kind::kWhile, std::move(carried),
               {static_cast<int>(graphs->first), static_cast<int>(graphs->second)}, types, outputs);
  for (size_t i = 0; i < others.size(); ++i) {
    variables_[assigned[i]].value = others[i];
    variables_[assigned[i]].is_assigned = true;
  }
}

std::optional<std::pair<size_t, size_t>> GraphImport::loop_graphs(SubgraphScope& scope,
                                                                  std::pair<uint32_t, uint32_t> called,
                                                                  std::vector<Given>& arguments,
                                                                  std::span<const size_t> carried,
                                                                  PassedVariables variables, size_t index) {
  const size_t refused = refused_.size();
  std::set<core::Dim> open;  // sizes that a turn may change; each turn of this loop adds some, so that it ends
  for (;;) {
    const size_t first = shared_.out.graphs.size();
    variables.are_results = true;
    const size_t body = called_graph(scope, called.second, arguments, variables, index);
    if (refused_.size() > refused) return std::nullopt;
    if (made_graph(body).outputs.size() != arguments.size())
      throw Unsupported("the body gives the handle of a variable in the place of a value");
    bool changed = false;
    for (size_t place : carried) {
      const Given result = result_of(made_graph(body), place);
      Given& argument = arguments[place];
      if (result.type.dtype != argument.type.dtype || result.quantization != argument.quantization)
        throw Unsupported(fmt::format("value {} has another type or scale after a turn", place));
      changed = widen(argument.type.shape, result.type.shape, open) || changed;
    }
    if (changed) {
      shared_.out.graphs.resize(first);
      continue;
    }
    variables.are_results = false;
    const size_t condition = called_graph(scope, called.first, arguments, variables, index);
    if (refused_.size() > refused) return std::nullopt;
    if (made_graph(condition).outputs.size() != 1) malformed_model("the condition is no bool");
    const core::Value& answer = made_graph(condition).at(made_graph(condition).outputs[0]);
    need_one_answer(answer);
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
