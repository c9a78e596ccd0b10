// SPDX-License-Identifier: Apache-2.0
#include "layout/raise/import_graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "layout/raise/import_values.h"
#include "layout/raise/known_at_run_time.h"
#include "layout/raise/options.h"
#include "layout/raise/refused_by_litert.h"
#include "layout/raise/table.h"
#include "schemas/tflite_generated.h"
#include "stream/error.h"
#include "stream/nearest_name.h"
#include "stream/printable.h"
#include "stream/recipe/recipe_reader.h"

namespace lowtide::layout {
namespace {

using stream::Code;
using stream::Error;
using stream::Unsupported;
using tflite::BuiltinOperator;

// A subgraph is imported for each operator that calls it: few bytes of a file could name very many operators.
constexpr size_t kMostCalled = size_t{1} << 16;

// Zeros of variables, and what is not stored of sparse weights.
constexpr uint64_t kMostMadeBytes = uint64_t{1} << 29;

// While it exists, quantized values of the list are f32.
class AsRealNumbers {
 public:
  AsRealNumbers(core::Graph& graph, std::span<const ValueId> ids) : graph_(graph) {
    for (ValueId id : ids) {
      if (id == kAbsent || !graph.at(id).quantization || graph.at(id).dtype == DType::kFloat32) continue;
      changed_.emplace_back(id, graph.at(id).dtype);
      graph.at(id).dtype = DType::kFloat32;
    }
  }
  ~AsRealNumbers() {
    for (const auto& [id, dtype] : changed_) graph_.at(id).dtype = dtype;
  }
  AsRealNumbers(const AsRealNumbers&) = delete;
  AsRealNumbers& operator=(const AsRealNumbers&) = delete;

 private:
  core::Graph& graph_;
  std::vector<std::pair<ValueId, DType>> changed_;
};

// Of integers as they are stored: their scales are not looked at.
TensorType as_other_bits(const core::Value& from, DType to) {
  if (stream::bits(from.dtype) != stream::bits(to))
    throw Unsupported(fmt::format("the bits of {} as those of {}", dtype_name(from.dtype), dtype_name(to)));
  return {to, from.shape, std::nullopt};
}

}  // namespace

void GraphImport::run(uint32_t main, const tfl::Signature* signature) {
  const tfl::Subgraph& from = model_.subgraphs[main];
  graph_.name = from.name.empty() ? "main" : from.name;
  SubgraphScope scope{from, std::vector<ValueId>(from.tensors.size(), kNotMade), {}, 0};
  for (size_t i = 0; i < from.inputs.size(); ++i) add_input(scope, from.inputs[i], signature, i);
  for (const auto& [name, shape] : shared_.options.shapes)
    if (std::find(graph_.input_names.begin(), graph_.input_names.end(), name) == graph_.input_names.end())
      throw Error(Code::kUsage,
                  fmt::format("--shape: the model has no input '{}' (inputs: {}){}", name,
                              stream::listed(graph_.input_names), stream::did_you_mean(name, graph_.input_names)));
  std::set<std::string> taken(graph_.input_names.begin(), graph_.input_names.end());
  std::multimap<uint32_t, std::string> of_signature;
  if (signature)
    for (const auto& [name, tensor] : signature->outputs)
      if (!name.empty()) of_signature.emplace(tensor, name);
  operators(scope);
  for (size_t i = 0; i < from.outputs.size(); ++i) {
    graph_.outputs.push_back(value(scope, from.outputs[i]));
    const auto tensor = static_cast<uint32_t>(from.outputs[i]);
    const Ports* ports = signature ? &signature->outputs : nullptr;
    std::string name = port_name(from.tensors[tensor].name, tensor, ports, "output", i);
    // An output may be a tensor that is an input or another output, too: then it has the signature's name.
    for (auto given = of_signature.find(tensor); taken.contains(name) && given != of_signature.end();
         given = of_signature.find(tensor)) {
      name = given->second;
      of_signature.erase(given);
    }
    taken.insert(name);
    graph_.output_names.push_back(std::move(name));
  }
  std::map<std::string_view, RaisedState*> states;
  for (RaisedState& state : shared_.states) states.emplace(graph_.input_names[state.input], &state);
  for (const auto& [key, variable] : variables_) {
    if (!variable.is_assigned) continue;
    if (const auto state = states.find(key); state != states.end()) state->second->output = graph_.outputs.size();
    graph_.outputs.push_back(variable.value);
    graph_.output_names.push_back(key + "_out");
  }
}

void GraphImport::run_called(uint32_t called, std::span<const Given> inputs, const PassedVariables& variables,
                             std::string label, int depth) {
  const tfl::Subgraph& from = model_.subgraphs[called];
  graph_.name = from.name;
  is_called_ = true;
  SubgraphScope scope{from, std::vector<ValueId>(from.tensors.size(), kNotMade), std::move(label), depth};
  const auto add_port = [&](const Given& given, const std::string& name) {
    const ValueId made = given.constant ? graph_.add_constant(given.constant, name)
                                        : graph_.add_value(given.type.dtype, given.type.shape, name);
    set_scales(made, given.quantization);
    if (given.constant) return made;
    graph_.inputs.push_back(made);
    graph_.input_names.push_back(name);
    return made;
  };
  size_t next = 0;
  for (size_t i = 0; i < from.inputs.size(); ++i) {
    const auto handle = variables.handles.find(i);
    if (handle != variables.handles.end()) {
      handles_[{&from, from.inputs[i]}] = handle->second;
      continue;
    }
    const tfl::Tensor& wanted = from.tensors[static_cast<size_t>(from.inputs[i])];
    const Given& given = inputs[next++];
    ValueId& made = scope.values[static_cast<size_t>(from.inputs[i])];
    if (made != kNotMade)
      malformed_model(fmt::format("the input '{}' of subgraph {} is listed twice", wanted.name, called));
    need_numbers(wanted);
    // One without axes may be one of which the file does not know them: LiteRT gives it the shape of what is passed.
    check_given(given, wanted, called, !wanted.shape.empty());
    made = add_port(given, wanted.name);
  }
  for (const std::string& name : variables.names) variables_[name].value = add_port(inputs[next++], name);
  operators(scope);
  for (int32_t output : from.outputs) {
    if (handles_.contains({&from, output})) continue;  // its variable is passed by itself
    graph_.outputs.push_back(value(scope, output));
    graph_.output_names.push_back(from.tensors[static_cast<size_t>(output)].name);
  }
  if (!variables.are_results) return;
  for (const std::string& name : variables.names) {
    graph_.outputs.push_back(variables_[name].value);
    graph_.output_names.push_back(name);
  }
}

void GraphImport::check_given(const Given& given, const tfl::Tensor& wanted, uint32_t called, bool has_rank) {
  if (given.type.dtype != wanted.dtype || (has_rank && given.type.shape.size() != wanted.shape.size()))
    throw Unsupported(fmt::format("an input differs in type or rank from '{}' of subgraph {}", wanted.name, called));
  if (given.quantization != quantization_of(wanted))
    throw Unsupported(fmt::format("an input differs in scale from '{}' of subgraph {}", wanted.name, called));
}

std::string GraphImport::port_name(const std::string& own, uint32_t tensor, const Ports* ports, const char* what,
                                   size_t i) {
  if (!own.empty()) return own;
  if (ports)
    for (const auto& [name, index] : *ports)
      if (index == tensor && !name.empty()) return name;
  return fmt::format("{}_{}", what, i);
}

void GraphImport::add_input(SubgraphScope& scope, int32_t index, const tfl::Signature* signature, size_t i) {
  const auto tensor = static_cast<size_t>(index);
  const tfl::Tensor& from = scope.from.tensors[tensor];
  const std::string name =
      port_name(from.name, static_cast<uint32_t>(index), signature ? &signature->inputs : nullptr, "input", i);
  if (scope.values[tensor] != kNotMade) malformed_model(fmt::format("the input '{}' is listed twice", name));
  need_numbers(from);
  const ValueId id = graph_.add_value(from.dtype, input_shape(from, name), name);
  set_scales(id, quantization_of(from));
  scope.values[tensor] = id;
  graph_.add_chosen_extents(graph_.at(id).shape);
  graph_.inputs.push_back(id);
  graph_.input_names.push_back(name);
}

Shape GraphImport::input_shape(const tfl::Tensor& tensor, const std::string& name) {
  Shape shape = tensor.shape;
  const auto is_open = [&](size_t axis) {
    return axis < tensor.shape_signature.size() && tensor.shape_signature[axis] < 0;
  };
  const auto given = shared_.options.shapes.find(name);
  if (given == shared_.options.shapes.end()) {
    // Several inputs may have one name: their extents are not equal for that.
    const std::string own = names_of_inputs_.unique(stream::printable(name));
    for (size_t axis = 0; axis < shape.size(); ++axis)
      if (is_open(axis)) {
        core::Dim& dim = shape[axis] = graph_.symbols.named(fmt::format("{}_dim{}", own, axis));
        shared_.open_dimensions.emplace(dim, fmt::format("axis {} of input '{}'", axis, stream::printable(name)));
        if (const auto known = shared_.bound.find(dim); known != shared_.bound.end()) dim = known->second;
      }
    return shape;
  }
  const Shape& wanted = given->second;
  if (wanted.size() != shape.size())
    throw Error(Code::kUsage,
                fmt::format("--shape {}: the input has rank {}, not {}", name, shape.size(), wanted.size()));
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (wanted[axis] > std::numeric_limits<int32_t>::max())
      throw Error(Code::kUsage,
                  fmt::format("--shape {}: the extent {} of axis {} does not fit 32 bits", name, wanted[axis], axis));
    if (!is_open(axis) && wanted[axis] != shape[axis])
      throw Error(Code::kUsage, fmt::format("--shape {}: axis {} is {} in the model and cannot become {}", name, axis,
                                            shape[axis], wanted[axis]));
  }
  return wanted;
}

ValueId GraphImport::value(SubgraphScope& scope, int32_t index) {
  if (index < 0) return kAbsent;
  ValueId& made = scope.values[static_cast<size_t>(index)];
  if (made != kNotMade) return made;
  const tfl::Tensor& from = scope.from.tensors[static_cast<size_t>(index)];
  if (from.is_variable && !from.has_data && never_changes(scope, index)) {
    need_array(from);
    const ValueId zeros = graph_.add_constant(zeros_of(from), from.name);
    set_scales(zeros, quantization_of(from));
    return scope.values[static_cast<size_t>(index)] = zeros;
  }
  need_numbers(from);
  stream::RecipeRef data = from.data;
  const bool is_empty = std::find(from.shape.begin(), from.shape.end(), 0) != from.shape.end();
  if (!data && from.has_data) throw Unsupported(fmt::format("the data of constant '{}' cannot be read", from.name));
  if (!data && !is_empty)
    malformed_model(fmt::format("tensor '{}' is read, but no operator writes it and it has no data", from.name));
  if (data && from.quantization && from.quantization->block_size != 0) {
    const ValueId numbers = value_in_blocks(scope, from);
    return scope.values[static_cast<size_t>(index)] = numbers;
  }
  if (!data) data = stream::recipe::inline_lanes({}, from.dtype, from.shape);
  const std::optional<core::Quantization> quantization = quantization_of(from);
  const ValueId constant = graph_.add_constant(std::move(data), from.name);
  set_scales(constant, quantization);
  return scope.values[static_cast<size_t>(index)] = constant;
}

void GraphImport::set_scales(ValueId id, std::optional<core::Quantization> quantization) {
  core::Value& value = graph_.at(id);
  if (quantization && quantization->scale.size() > 1) {
    const auto count = static_cast<core::Dim>(quantization->scale.size());
    const bool has_axis = quantization->axis >= 0 && quantization->axis < value.rank();
    const core::Dim extent = has_axis ? value.shape[static_cast<size_t>(quantization->axis)] : 0;
    if (!has_axis || (stream::is_static(extent) && extent != count))
      throw Unsupported(fmt::format("tensor '{}' has {} scales along axis {}, and its shape is {}", value.name, count,
                                    quantization->axis, stream::to_string(value.shape)),
                        "write the model with the shapes that its operators give, or with one scale for this tensor");
  }
  value.quantization = std::move(quantization);
}

void GraphImport::count_made_bytes(uint64_t bytes) {
  if (bytes > kMostMadeBytes || shared_.made_bytes + bytes > kMostMadeBytes)
    throw Unsupported(
        fmt::format("constants that are not in the file would have more than {} MiB", kMostMadeBytes >> 20));
  shared_.made_bytes += bytes;
}

Unsupported GraphImport::known_at_run_time(std::string_view what) const {
  return layout::known_at_run_time(what, shared_.out);
}

std::string GraphImport::names(const SubgraphScope& scope, std::span<const int32_t> tensors) {
  constexpr size_t kMostNamed = 32;
  std::vector<std::string> out;
  for (int32_t tensor : tensors.first(std::min(tensors.size(), kMostNamed)))
    out.push_back(tensor < 0 ? "absent" : "'" + scope.from.tensors[static_cast<size_t>(tensor)].name + "'");
  if (tensors.size() > kMostNamed) out.push_back(fmt::format("and {} others", tensors.size() - kMostNamed));
  return fmt::format("{}", fmt::join(out, ", "));
}

void GraphImport::operators(SubgraphScope& scope) {
  // Behind the limit nothing is imported any more, and it is refused once.
  if (shared_.called_operators > kMostCalled) return;
  if (scope.depth > 0) shared_.called_operators += scope.from.operators.size();
  if (shared_.called_operators > kMostCalled)
    throw Unsupported(fmt::format("calls of subgraphs expand to more than {} operators", kMostCalled));
  for (size_t i = 0; i < scope.from.operators.size(); ++i) {
    if (scope.done.contains(i)) continue;
    const tfl::Operator& op = scope.from.operators[i];
    const std::string output = op.outputs.empty() ? "" : scope.from.tensors[static_cast<size_t>(op.outputs[0])].name;
    const std::string label = fmt::format("{}{}: {}", scope.label, i, output);
    graph_.add_origin(label, 0);
    const stream::Where where{.node = label, .op = op.name, .slot = fmt::format("inputs {}", names(scope, op.inputs))};
    try {
      operation(scope, op, i);
    } catch (Unsupported& error) {
      if (shared_.refused_operators.emplace(&op, error.reason()).second) {
        error.add_place(where);
        refused_.push_back(error);
      }
      use_types_of_file(scope, op);
    } catch (const OpenDimensionIs& needed) {
      // One of the model's own inputs gets this size, in another import.
      if (shared_.open_dimensions.contains(needed.open) && !shared_.bound.contains(needed.open)) throw;
      Unsupported error = known_at_run_time(fmt::format("a size that must be {}", needed.size));
      error.add_place(where);
      refused_.push_back(error);
      use_types_of_file(scope, op);
    } catch (Error& error) {
      // Behind a refused operator types are those of the file, which may be wrong.
      if (!refused_.empty()) {
        use_types_of_file(scope, op);
        continue;
      }
      error.add_place(where);
      throw;
    }
  }
}

void GraphImport::use_types_of_file(SubgraphScope& scope, const tfl::Operator& op) {
  for (int32_t output : op.outputs) {
    const tfl::Tensor& tensor = scope.from.tensors[static_cast<size_t>(output)];
    if (scope.values[static_cast<size_t>(output)] >= 0) continue;
    Shape shape = tensor.shape;
    if (is_complex(tensor)) shape.push_back(2);
    const ValueId id = graph_.add_value(is_complex(tensor) ? DType::kFloat32 : tensor.dtype, shape, tensor.name);
    if (tensor.quantization && !tensor.quantization->other_form) set_scales(id, quantization_of(tensor));
    scope.values[static_cast<size_t>(output)] = id;
  }
}

void GraphImport::operation(SubgraphScope& scope, const tfl::Operator& op, size_t index) {
  import_one(scope, op, index);
  for (const int32_t output : op.outputs) need_data_of_file(scope, output);
}

void GraphImport::need_data_of_file(const SubgraphScope& scope, int32_t output) {
  const tfl::Tensor& tensor = scope.from.tensors[static_cast<size_t>(output)];
  if (!tensor.has_data) return;
  const ValueId made = scope.values[static_cast<size_t>(output)];
  const std::optional<std::vector<int64_t>> result = made >= 0 ? graph_.ints(made) : std::nullopt;
  const bool is_of_file = result && tensor.data && tensor.data->dtype == graph_.at(made).dtype &&
                          tensor.data->dims == graph_.at(made).shape &&
                          stream::evaluate_ints(tensor.data, graph_.budget) == *result;
  if (!is_of_file)
    malformed_model(
        fmt::format("it writes to the constant '{}', whose data are not known to be its result", tensor.name));
}

void GraphImport::import_one(SubgraphScope& scope, const tfl::Operator& op, size_t index) {
  const auto code = static_cast<BuiltinOperator>(op.code);
  if (complex_numbers(scope, op)) return;
  if (code == BuiltinOperator::CUSTOM) return custom(scope, op);
  if (code == BuiltinOperator::STABLEHLO_COMPOSITE) return composite(scope, op, index);
  if (code == BuiltinOperator::VAR_HANDLE) return handle(scope, op);
  if (code == BuiltinOperator::READ_VARIABLE) return read_variable(scope, op);
  if (code == BuiltinOperator::ASSIGN_VARIABLE) return assign_variable(scope, op);
  if (code == BuiltinOperator::CALL_ONCE) return call_once(scope, op, index);
  if (is_stateful(op.code)) return stateful(scope, op);
  if (code == BuiltinOperator::IF) return branches(scope, op, index);
  if (code == BuiltinOperator::WHILE) return loop(scope, op, index);
  if (code == BuiltinOperator::DENSIFY) return densify(scope, op);
  if (const std::optional<std::string> reason = misread_bias(scope.from, op)) throw Unsupported(*reason);
  // The other kernel that takes sparse weights.
  if (code == BuiltinOperator::FULLY_CONNECTED && op.inputs.size() > 1 && op.inputs[1] >= 0)
    take_sparse(scope, op.inputs[1]);
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const int32_t input = op.inputs[i];
    if (input < 0) continue;
    const bool takes_sparse = code == BuiltinOperator::FULLY_CONNECTED && i == 1;
    const tfl::Tensor& tensor = scope.from.tensors[static_cast<size_t>(input)];
    if (tensor.is_sparse && !takes_sparse) need_numbers(tensor);  // DENSIFY may have made a value of it
    value(scope, input);
  }
  if (code == BuiltinOperator::STRIDED_SLICE && has_other_axes(scope, op)) return slice_with_other_axes(scope, op);
  if (code == BuiltinOperator::SPACE_TO_BATCH_ND) {
    if (!dilated_convolution(scope, op)) space_to_batch(scope, op);
    return;
  }
  if (code == BuiltinOperator::BATCH_TO_SPACE_ND) return batch_to_space(scope, op);
  if (code == BuiltinOperator::NON_MAX_SUPPRESSION_V4 || code == BuiltinOperator::NON_MAX_SUPPRESSION_V5)
    return suppression(scope, op);
  if (written_with_others(scope, op)) return;
  const std::optional<Kind> kind = kind_of_builtin(op.code);
  const RaiseRow* row = kind ? raise_row(*kind) : nullptr;
  if (!row) throw Unsupported(fmt::format("{} is not supported in this direction", op.name));
  std::vector<ValueId> inputs = values(scope, op.inputs);
  if (*kind == Kind::kReshape) take_shape_option(op, inputs);
  if (*kind == Kind::kStridedSlice && has_offsets(op)) take_offsets(op, inputs);
  if (*kind == Kind::kTranspose && inputs.size() == 2 && inputs[0] != kAbsent && inputs[1] != kAbsent)
    inputs[1] = from_the_front(inputs[1], graph_.at(inputs[0]).shape.size());
  while (!inputs.empty() && inputs.back() == kAbsent) inputs.pop_back();
  for (size_t i = 0; i < row->least_inputs; ++i)
    if (i >= inputs.size() || inputs[i] == kAbsent) malformed_model(fmt::format("{} needs its input {}", op.name, i));
  if (inputs.size() > row->most_inputs)
    malformed_model(fmt::format("it has {} inputs, more than {}", inputs.size(), row->most_inputs));
  if (row->most_inputs == RaiseRow::kAnyNumber)
    for (ValueId input : inputs)
      if (input == kAbsent) malformed_model("one of its inputs is absent");
  if (op.outputs.empty()) malformed_model("it has no output");
  // Of UNIQUE and TOPK_V2 the second output has the indices.
  const bool is_second = (kind == Kind::kUnique || kind == Kind::kTopkV2) && op.outputs.size() == 2;
  const int32_t result = op.outputs[is_second ? 1 : 0];
  // Counted from the front, as the rows expect them.
  Options options = options_of(*kind, op, inputs, scope.from.tensors[static_cast<size_t>(result)].dtype);
  add(scope, *kind, std::move(inputs), std::move(options), op.outputs);
}

std::vector<ValueId> GraphImport::values(SubgraphScope& scope, std::span<const int32_t> tensors) {
  std::vector<ValueId> out;
  for (int32_t tensor : tensors) out.push_back(value(scope, tensor));
  return out;
}

ValueId GraphImport::from_the_front(ValueId axes, size_t rank) {
  std::optional<std::vector<int64_t>> list = graph_.ints(axes);
  if (!list || std::none_of(list->begin(), list->end(), [](int64_t axis) { return axis < 0; })) return axes;
  for (int64_t& axis : *list)
    if (axis < 0) axis += static_cast<int64_t>(rank);
  return ints(*list);
}

bool GraphImport::is_list(ValueId id) const {
  return id != kAbsent && graph_.at(id).rank() == 1 && graph_.at(id).dtype == DType::kInt32;
}

void GraphImport::take_shape_option(const tfl::Operator& op, std::vector<ValueId>& inputs) {
  if (inputs.size() == 2 && is_list(inputs[1])) return;
  inputs.resize(1, kAbsent);
  for (const tfl::Option& option : op.options)
    if (option.name == "new_shape")
      if (const auto* list = std::get_if<std::vector<int64_t>>(&option.value)) {
        // Old files say [0] for a scalar, as LiteRT reads it.
        const bool is_scalar = list->size() == 1 && list->front() == 0;
        inputs.push_back(ints(is_scalar ? std::vector<int64_t>{} : *list));
        return;
      }
  malformed_model("RESHAPE has neither an input nor an option with its shape");
}

int GraphImport::front(int axis, size_t rank, const char* what) const {
  const int ranks = static_cast<int>(rank);
  if (axis < -ranks || axis >= ranks)
    malformed_model(fmt::format("{} {} is outside a tensor of rank {}", what, axis, rank));
  return axis < 0 ? axis + ranks : axis;
}

Options GraphImport::options_of(Kind kind, const tfl::Operator& op, std::span<const ValueId> inputs, DType result) {
  Options out = read_builtin_options(kind, op);
  auto rank = [&](size_t input) { return graph_.at(inputs[input]).shape.size(); };
  if (auto* concat = std::get_if<core::ConcatOptions>(&out)) concat->axis = front(concat->axis, rank(0), "axis");
  if (auto* pack = std::get_if<core::PackOptions>(&out))
    pack->axis = front(pack->axis, rank(0) + (kind == Kind::kPack ? 1 : 0), "axis");
  if (auto* gather = std::get_if<core::GatherOptions>(&out)) {
    gather->axis = front(gather->axis, rank(0), "axis");
    const int batch = gather->batch_dims;
    gather->batch_dims = batch < 0 ? batch + static_cast<int>(rank(1)) : batch;
    if (gather->batch_dims < 0 || gather->batch_dims > gather->axis ||
        gather->batch_dims > static_cast<int>(std::min(rank(0), rank(1))))
      malformed_model(
          fmt::format("batch_dims {} does not fit axis {} and ranks {} and {}", batch, gather->axis, rank(0), rank(1)));
  }
  if (kind == Kind::kOneHot)
    if (auto* one_hot = std::get_if<core::OneHotOptions>(&out); one_hot->axis != -1)
      one_hot->axis = front(one_hot->axis, rank(0) + 1, "axis");
  if (auto* reverse = std::get_if<core::ReverseSequenceOptions>(&out)) {
    reverse->sequence_axis = front(reverse->sequence_axis, rank(0), "seq_dim");
    reverse->batch_axis = front(reverse->batch_axis, rank(0), "batch_dim");
  }
  const bool has_index = kind == Kind::kCast || kind == Kind::kShape || kind == Kind::kArgMax ||
                         kind == Kind::kArgMin || kind == Kind::kBitcast || kind == Kind::kUnique;
  if (kind == Kind::kArgMax || kind == Kind::kArgMin) {
    constexpr int kInt32 = static_cast<int>(tflite::TensorType::INT32),
                  kInt64 = static_cast<int>(tflite::TensorType::INT64);
    const int named = int_option(op, "output_type");
    const bool fits = (result == DType::kInt32 && named != kInt64) || (result == DType::kInt64 && named != kInt32);
    if (!fits) malformed_model(fmt::format("option output_type is {}, and the result {}", named, dtype_name(result)));
  }
  // LiteRT's indices of 16 bits; others are those that the row infers.
  const bool has_short_index = kind == Kind::kTopkV2 && result == DType::kInt16;
  if (has_index || has_short_index) out = core::IndexOptions{result};
  return out;
}

// A RESHAPE whose list has a length that is computed. The file says of how many axes the result is; one without axes
// may be one of which it does not know.
bool GraphImport::has_computed_rank(std::span<const ValueId> inputs, const tfl::Tensor& result) const {
  return inputs.size() == 2 && graph_.at(inputs[1]).rank() == 1 && core::is_symbol(graph_.at(inputs[1]).shape[0]) &&
         !result.shape.empty();
}

TensorType GraphImport::with_rank_of_file(ValueId data, const tfl::Tensor& result) {
  TensorType out{graph_.at(data).quantization ? DType::kFloat32 : graph_.at(data).dtype, {}, std::nullopt};
  for (size_t axis = 0; axis < result.shape.size(); ++axis) out.shape.push_back(graph_.symbols.fresh("dim"));
  return out;
}

bool GraphImport::gives_halves(ValueId table, const tfl::Tensor& result) const {
  return graph_.at(table).quantization && result.dtype == DType::kFloat16;
}

std::vector<TensorType> GraphImport::infer(Kind kind, std::span<const ValueId> inputs, const Options& options,
                                           size_t outputs) {
  const AsRealNumbers real(graph_, inputs);
  return core::inferred({graph_, kind, inputs, options, static_cast<int>(outputs)});
}

void GraphImport::check_type(const TensorType& type, const tfl::Tensor& tensor, bool is_quantized) const {
  const DType expected = is_quantized ? DType::kFloat32 : tensor.dtype;
  if (type.dtype != expected)
    throw Unsupported(fmt::format("output '{}' is {}{}, but the operator's result is {}", tensor.name, tensor.type,
                                  is_quantized ? " with a scale" : "", dtype_name(type.dtype)));
}

void GraphImport::compare_shape(const Shape& shape, const tfl::Tensor& tensor) {
  bool fits = shape.size() == tensor.shape.size();
  for (size_t i = 0; fits && i < shape.size(); ++i) {
    const bool is_open = !tensor.shape_signature.empty() && tensor.shape_signature[i] < 0;
    fits = is_open || core::is_symbol(shape[i]) || shape[i] == tensor.shape[i];
  }
  if (fits || !shared_.other_shapes.insert(&tensor).second || shared_.other_shapes.size() > 1) return;
  shared_.first_other_shape = fmt::format("'{}', which is {} and not {}", stream::printable(tensor.name),
                                          stream::to_string(shape), stream::to_string(tensor.shape));
}

void GraphImport::flatten_bias(Kind kind, std::span<ValueId> inputs) {
  const core::Weights* weights = core::builtin(kind).weights;
  if (!weights || *weights->bias >= inputs.size() || inputs[*weights->bias] == kAbsent) return;
  ValueId& bias = inputs[*weights->bias];
  const core::Value from = graph_.at(bias);
  if (from.rank() == 1 || !stream::is_static(from.shape)) return;
  const std::vector<int64_t> flat = {static_cast<int64_t>(stream::element_count(from.shape))};
  bias = from.constant ? graph_.add_constant(stream::recipe::reshape(from.constant, flat), from.name)
                       : add_moved(Kind::kReshape, bias, ints(flat));
  std::optional<core::Quantization> quantization = from.quantization;
  if (quantization) quantization->axis = 0;
  set_scales(bias, std::move(quantization));
}

void GraphImport::add(SubgraphScope& scope, Kind kind, std::vector<ValueId> inputs, Options options,
                      std::span<const int32_t> outputs) {
  flatten_bias(kind, inputs);
  const bool converts = kind == Kind::kQuantize || kind == Kind::kDequantize;
  std::vector<TensorType> types;
  if (converts)
    types = {{DType::kFloat32, graph_.at(inputs[0]).shape, std::nullopt}};
  else if (kind == Kind::kReshape && has_computed_rank(inputs, scope.from.tensors[static_cast<size_t>(outputs[0])]))
    types = {with_rank_of_file(inputs[0], scope.from.tensors[static_cast<size_t>(outputs[0])])};
  else if (kind == Kind::kBitcast)
    types = {as_other_bits(graph_.at(inputs[0]), std::get<core::IndexOptions>(options).dtype)};
  else
    types = infer(kind, inputs, options, outputs.size());
  if (kind == Kind::kEmbeddingLookup && gives_halves(inputs[1], scope.from.tensors[static_cast<size_t>(outputs[0])]))
    types[0].dtype = DType::kFloat16;
  if (types.size() != outputs.size())
    malformed_model(fmt::format("it has {} outputs in place of {}", outputs.size(), types.size()));
  const RecipeRef result = converts ? nullptr : folded(kind, inputs, options, types);
  core::Op op{.kind = kind,
              .inputs = std::move(inputs),
              .outputs = {},
              .options = std::move(options),
              .origin = static_cast<uint32_t>(graph_.origins.size() - 1)};
  for (size_t i = 0; i < types.size(); ++i) {
    const tfl::Tensor& tensor = scope.from.tensors[static_cast<size_t>(outputs[i])];
    need_numbers(tensor);
    const std::optional<core::Quantization> quantization = quantization_of(tensor);
    check_type(types[i], tensor, quantization.has_value() && kind != Kind::kCast && kind != Kind::kBitcast);
    compare_shape(types[i].shape, tensor);
    if (result && !quantization) {
      scope.values[static_cast<size_t>(outputs[0])] = graph_.add_constant(result, tensor.name);
      return;
    }
    const std::optional<std::vector<core::Dim>>& known = types[i].contents;
    if (known && types.size() == 1 && stream::is_static(types[i].shape) && !quantization &&
        std::none_of(known->begin(), known->end(), core::is_symbol)) {
      // Arithmetic on shapes whose result is known.
      scope.values[static_cast<size_t>(outputs[0])] = graph_.add_ints(*known, tensor.dtype, types[i].shape);
      return;
    }
    const ValueId id = graph_.add_value(tensor.dtype, std::move(types[i].shape), tensor.name);
    graph_.at(id).contents = std::move(types[i].contents);
    set_scales(id, quantization);
    graph_.at(id).producer = static_cast<core::OpId>(graph_.ops.size());
    op.outputs.push_back(id);
    scope.values[static_cast<size_t>(outputs[i])] = id;
  }
  graph_.add_op(std::move(op));
}

ValueId GraphImport::add_float(Kind kind, std::vector<ValueId> inputs, Options options) {
  std::vector<TensorType> types = infer(kind, inputs, options, 1);
  const std::optional<std::vector<core::Dim>>& known = types[0].contents;
  if (known && stream::is_static(types[0].shape) && std::none_of(known->begin(), known->end(), core::is_symbol))
    return graph_.add_ints(*known, types[0].dtype, types[0].shape);
  const ValueId id = graph_.add_value(types[0].dtype, std::move(types[0].shape));
  graph_.at(id).contents = std::move(types[0].contents);
  graph_.at(id).producer = static_cast<core::OpId>(graph_.ops.size());
  graph_.add_op({.kind = kind,
                 .inputs = std::move(inputs),
                 .outputs = {id},
                 .options = std::move(options),
                 .origin = static_cast<uint32_t>(graph_.origins.size() - 1)});
  return id;
}

}  // namespace lowtide::layout
