// SPDX-License-Identifier: Apache-2.0
// Variables: inputs of the result, with defaults, and outputs with the values that a run leaves in them.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "layout/raise/import_graph.h"
#include "layout/raise/import_values.h"
#include "layout/raise/options.h"
#include "schemas/tflite_generated.h"
#include "stream/error.h"

namespace lowtide::layout {
namespace {

using stream::Unsupported;

}  // namespace

void GraphImport::handle(SubgraphScope& scope, const tfl::Operator& op) {
  if (op.options_table != "VarHandleOptions" || op.outputs.size() != 1)
    malformed_model("VAR_HANDLE needs VarHandleOptions and one output");
  handles_[{&scope.from, op.outputs[0]}] = variable_name(op);
}

std::string GraphImport::variable_name(const tfl::Operator& op) {
  std::pair both(text_option(op, "container"), text_option(op, "shared_name"));
  std::string out = both.first.empty() ? both.second : fmt::format("{}/{}", both.first, both.second);
  const auto [known, is_new] = shared_.variables.try_emplace(out, both);
  if (!is_new && known->second != both)
    throw Unsupported(fmt::format("the variables '{}' of container '{}' and '{}' of container '{}' have one name",
                                  both.second, both.first, known->second.second, known->second.first));
  return out;
}

std::string GraphImport::text_option(const tfl::Operator& op, std::string_view name) {
  for (const tfl::Option& option : op.options)
    if (option.name == name)
      if (const auto* text = std::get_if<std::string>(&option.value)) return *text;
  return {};
}

std::pair<const std::string, GraphImport::Variable>& GraphImport::variable(const SubgraphScope& scope,
                                                                           const tfl::Operator& op) {
  const auto found = op.inputs.empty() ? handles_.end() : handles_.find({&scope.from, op.inputs[0]});
  if (found == handles_.end())
    throw Unsupported(fmt::format("{} refers to a variable that no VAR_HANDLE of its subgraph names", op.name));
  if (is_called_ && !variables_.contains(found->second))
    throw Unsupported(fmt::format("the variable '{}' is not known in the graph around this one", found->second));
  return *variables_.try_emplace(found->second).first;
}

void GraphImport::read_variable(SubgraphScope& scope, const tfl::Operator& op) {
  if (op.outputs.size() != 1) malformed_model("READ_VARIABLE needs one output");
  auto& [key, held] = variable(scope, op);
  const tfl::Tensor& tensor = scope.from.tensors[static_cast<size_t>(op.outputs[0])];
  need_numbers(tensor);
  if (held.value == kNotMade) held.value = add_state(key, tensor, held.initial);
  const core::Value& value = graph_.at(held.value);
  if (value.dtype != tensor.dtype || value.quantization != quantization_of(tensor))
    throw Unsupported(fmt::format("'{}' differs in type or scale from the variable '{}'", tensor.name, key));
  compare_shape(value.shape, tensor);
  scope.values[static_cast<size_t>(op.outputs[0])] = held.value;
}

namespace {

// Operators with states, and those whose insides are not looked at for them.
bool may_change_inputs(int32_t code) {
  using tflite::BuiltinOperator;
  const auto builtin = static_cast<BuiltinOperator>(code);
  return is_stateful(code) || builtin == BuiltinOperator::CUSTOM || builtin == BuiltinOperator::STABLEHLO_COMPOSITE ||
         builtin == BuiltinOperator::IF || builtin == BuiltinOperator::WHILE;
}

}  // namespace

RecipeRef GraphImport::zeros_of(const tfl::Tensor& tensor) {
  const std::optional<core::Quantization> quantization = quantization_of(tensor);
  const bool has_zero = quantization && tensor.dtype == DType::kInt8 && !quantization->zero_point.empty();
  count_made_bytes(stream::file_bytes(tensor.dtype, stream::element_count(tensor.shape)));
  const double zero = has_zero ? static_cast<double>(quantization->zero_point[0]) : 0;
  return stream::recipe::fill_value(zero, tensor.dtype, tensor.shape);
}

bool GraphImport::never_changes(SubgraphScope& scope, int32_t variable) {
  if (scope.changed.empty()) {
    scope.changed.resize(scope.from.tensors.size());
    const auto note = [&](std::span<const int32_t> tensors) {
      for (const int32_t tensor : tensors)
        if (tensor >= 0) scope.changed[static_cast<size_t>(tensor)] = true;
    };
    for (const tfl::Operator& op : scope.from.operators) {
      note(op.outputs);
      if (may_change_inputs(op.code)) note(op.inputs);
    }
  }
  return !scope.changed[static_cast<size_t>(variable)];
}

ValueId GraphImport::add_state(const std::string& name, const tfl::Tensor& tensor, RecipeRef initial) {
  const std::optional<core::Quantization> quantization = quantization_of(tensor);
  if (!stream::is_static(tensor.shape) || std::count_if(tensor.shape_signature.begin(), tensor.shape_signature.end(),
                                                        [](core::Dim d) { return d < 0; }) > 0)
    if (!initial) throw Unsupported(fmt::format("the shape of variable '{}' is known at run time only", name));
  if (!initial) initial = zeros_of(tensor);
  if (initial->dtype != tensor.dtype)
    throw Unsupported(fmt::format("the variable '{}' begins with another type than it is read with", name));
  const ValueId id = graph_.add_value(tensor.dtype, initial->dims, name);
  set_scales(id, quantization);
  graph_.inputs.push_back(id);
  graph_.input_names.push_back(name);
  shared_.states.push_back({.input = graph_.inputs.size() - 1, .output = std::nullopt, .initial = std::move(initial)});
  return id;
}

void GraphImport::assign_variable(SubgraphScope& scope, const tfl::Operator& op) {
  if (op.inputs.size() != 2 || op.inputs[1] < 0) malformed_model("ASSIGN_VARIABLE needs a variable and a value");
  auto& [key, held] = variable(scope, op);
  const ValueId value_id = value(scope, op.inputs[1]);
  if (is_initial_) {
    held.initial = graph_.at(value_id).constant;
    if (!held.initial) throw Unsupported(fmt::format("the first value of variable '{}' is computed", key));
    return;
  }
  held.value = value_id;
  held.is_assigned = true;
}

void GraphImport::call_once(SubgraphScope& scope, const tfl::Operator& op, size_t index) {
  if (op.options_table != "CallOnceOptions") malformed_model("it has no CallOnceOptions");
  const uint32_t called = called_by(scope, op, "init_subgraph_index");
  check_ports(called, 0, 0);
  if (is_called_) throw Unsupported("CALL_ONCE inside of IF or WHILE is not supported");
  const tfl::Subgraph& from = model_.subgraphs[called];
  SubgraphScope inner{from, std::vector<ValueId>(from.tensors.size(), kNotMade),
                      fmt::format("{}{}.", scope.label, index), scope.depth + 1};
  const bool before = std::exchange(is_initial_, true);
  operators(inner);
  is_initial_ = before;
}

}  // namespace lowtide::layout
