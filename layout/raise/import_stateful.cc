// SPDX-License-Identifier: Apache-2.0
// Operators whose kernels keep a state between runs: their variable tensors become inputs and outputs.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

#include "layout/raise/families.h"
#include "layout/raise/import_graph.h"
#include "layout/raise/import_values.h"
#include "layout/raise/options.h"
#include "layout/raise/stateful.h"
#include "layout/raise/stateful_inputs.h"
#include "schemas/tflite_generated.h"
#include "stream/error.h"

namespace lowtide::layout {
namespace {

using stream::Unsupported;
using tflite::BuiltinOperator;

constexpr size_t kStepResult = 4;  // of the intermediates of a quantized LSTM

// Of the integer kernel only the plain form: what the others round is not known to agree.
void check_integer_lstm(const StatefulInputs& in, const tfl::Operator& op) {
  if (in.at(0).dtype == DType::kFloat32) return;
  constexpr std::array kOther = {9, 10, 11, 16, 17, 20, 21, 22, 23};
  const bool is_plain =
      std::none_of(kOther.begin(), kOther.end(), [&](int i) { return in.has(static_cast<size_t>(i)); });
  if (!is_plain || !in.has(1) || in.at(0).dtype != DType::kInt8 || in.at(19).dtype != DType::kInt16 ||
      op.intermediates.size() != 5)
    throw Unsupported(
        "on integers only the form with i8 data, an i16 cell, and no peephole, projection, normalization or coupled "
        "gates is supported");
  if (op.intermediates[kStepResult] < 0)
    malformed_model(fmt::format("its intermediate {}, which has the scale of a step's result, is absent", kStepResult));
}

void check_lstm(const StatefulInputs& in, const tfl::Operator& op, size_t rank) {
  check_float_lstm(in, rank);
  check_integer_lstm(in, op);
}

struct ImportedForm {
  const char* table;
  size_t inputs;
  std::vector<size_t> states;
  bool is_sequence;
};
ImportedForm form_of(BuiltinOperator code) {
  switch (code) {
    case BuiltinOperator::LSTM:
      return {"LSTMOptions", kLstmInputs, {18, 19}, false};
    case BuiltinOperator::UNIDIRECTIONAL_SEQUENCE_LSTM:
      return {"UnidirectionalSequenceLSTMOptions", kLstmInputs, {18, 19}, true};
    case BuiltinOperator::RNN:
      return {"RNNOptions", 5, {4}, false};
    case BuiltinOperator::UNIDIRECTIONAL_SEQUENCE_RNN:
      return {"SequenceRNNOptions", 5, {4}, true};
    default:
      return {"SVDFOptions", 5, {4}, false};
  }
}

}  // namespace

float real_option(const tfl::Operator& op, std::string_view name) {
  for (const tfl::Option& option : op.options)
    if (option.name == name)
      if (const auto* value = std::get_if<double>(&option.value)) return static_cast<float>(*value);
  return 0;
}
bool flag_option(const tfl::Operator& op, std::string_view name) {
  for (const tfl::Option& option : op.options)
    if (option.name == name)
      if (const auto* value = std::get_if<bool>(&option.value)) return *value;
  return false;
}

void check_svdf(const StatefulInputs& in, int rank) {
  const core::Dim inputs = in.extent(0, 2, 1), filters = in.extent(1, 2, 0), memory = in.extent(2, 2, 1);
  if (rank < 1 || filters % rank != 0)
    malformed_model(fmt::format("{} filters are no multiple of rank {}", filters, rank));
  in.expect(1, {filters, inputs});
  in.expect(2, {filters, memory});
  in.expect_if_there(3, {filters / rank});
  in.extent(4, 2, 0);
  in.expect(4, {in.at(4).shape[0], filters * memory});
}

void check_float_lstm(const StatefulInputs& in, size_t rank) {
  const core::Dim inputs = in.extent(0, rank, rank - 1), cells = in.extent(2, 2, 0), outputs = in.extent(6, 2, 1);
  for (size_t gate = 1; gate < 4; ++gate) {
    in.expect(1 + gate, {cells, inputs});
    in.expect(5 + gate, {cells, outputs});
    in.expect_bias(12 + gate, {cells});
  }
  if (in.has(1) != in.has(5)) malformed_model("the input gate has one of its weights only");
  if (in.has(1)) in.expect_bias(12, {cells});
  in.expect_if_there(1, {cells, inputs});
  in.expect_if_there(5, {cells, outputs});
  for (size_t i : {9, 10, 11, 20, 21, 22, 23}) in.expect_if_there(i, {cells});
  if (in.has(9) != (in.has(10) && in.has(1)) || in.has(10) != in.has(11))
    malformed_model("some of the peephole weights are absent");
  if (in.has(20) != (in.has(21) && in.has(1)) || in.has(21) != in.has(22) || in.has(21) != in.has(23))
    malformed_model("some of the normalization's factors are absent");
  in.expect_if_there(16, {outputs, cells});
  in.expect_if_there(17, {outputs});
  if (!in.has(16) && cells != outputs) malformed_model("the recurrent weights do not fit the cells");
  if (in.has(17) && !in.has(16)) malformed_model("a projection has a bias, but no weights");
  in.extent(18, 2, 0);
  in.expect(18, {in.at(18).shape[0], outputs});
  in.expect(19, {in.at(18).shape[0], cells});
}

void check_rnn(const StatefulInputs& in, size_t rank) {
  const core::Dim inputs = in.extent(0, rank, rank - 1), units = in.extent(1, 2, 0);
  in.expect(1, {units, inputs});
  in.expect(2, {units, units});
  in.expect(3, {units});
  in.extent(4, 2, 0);
  in.expect(4, {in.at(4).shape[0], units});
}

bool is_stateful(int32_t code) {
  const auto builtin = static_cast<BuiltinOperator>(code);
  return builtin == BuiltinOperator::LSTM || builtin == BuiltinOperator::UNIDIRECTIONAL_SEQUENCE_LSTM ||
         builtin == BuiltinOperator::RNN || builtin == BuiltinOperator::UNIDIRECTIONAL_SEQUENCE_RNN ||
         builtin == BuiltinOperator::SVDF || builtin == BuiltinOperator::BIDIRECTIONAL_SEQUENCE_LSTM ||
         builtin == BuiltinOperator::BIDIRECTIONAL_SEQUENCE_RNN;
}

std::shared_ptr<StatefulOperator> stateful_operator(const tfl::Operator& op) {
  auto made = std::make_shared<StatefulOperator>();
  made->name = op.name;
  made->raise = raise_stateful;
  made->activation = int_option(op, "fused_activation_function");
  made->cell_clip = real_option(op, "cell_clip");
  made->proj_clip = real_option(op, "proj_clip");
  made->time_major = flag_option(op, "time_major");
  return made;
}

GraphImport::Variable& GraphImport::take_state(SubgraphScope& scope, const tfl::Operator& op, size_t input,
                                               ValueId& taken) {
  if (input >= op.inputs.size() || op.inputs[input] < 0) malformed_model(fmt::format("it needs its input {}", input));
  const tfl::Tensor& tensor = scope.from.tensors[static_cast<size_t>(op.inputs[input])];
  if (is_called_)
    throw Unsupported(fmt::format(
        "the state '{}' is memory of a subgraph that IF or WHILE runs: LiteRT keeps it from one run of the subgraph to "
        "the next, and a branch or body in ONNX has no such memory",
        tensor.name));
  if (!tensor.is_variable) throw Unsupported(fmt::format("its state '{}' is no variable", tensor.name));
  const int32_t index = op.inputs[input];
  if (!taken_states_.emplace(&scope.from, index).second)
    throw Unsupported(fmt::format("the state '{}' is used by another operator", tensor.name));
  // Names are for readers: several tensors may have the same one, or none.
  std::string name = tensor.name;
  if (name.empty() || variables_.contains(name))
    name = fmt::format("{}{}state_{}", name, name.empty() ? "" : "_", index);
  while (variables_.contains(name)) name += "_";
  const auto place = variables_.try_emplace(name).first;
  place->second.value = taken = add_state(name, tensor, nullptr);
  return place->second;
}

ValueId GraphImport::add_stateful(std::shared_ptr<const StatefulOperator> made, std::vector<ValueId> inputs,
                                  std::span<const size_t> states, std::span<Variable* const> held,
                                  const TensorType& result) {
  std::vector<TensorType> types = {result};
  for (size_t state : states) {
    const core::Value& before = graph_.at(inputs[state]);
    types.push_back({before.dtype, before.shape, std::nullopt});
  }
  const std::vector<ValueId> outputs = add_custom(std::move(made), inputs, types);
  for (size_t i = 0; i < held.size(); ++i) {
    set_scales(outputs[i + 1], graph_.at(inputs[states[i]]).quantization);
    held[i]->value = outputs[i + 1];
    held[i]->is_assigned = true;
  }
  return outputs[0];
}

void GraphImport::stateful(SubgraphScope& scope, const tfl::Operator& op) {
  const auto code = static_cast<BuiltinOperator>(op.code);
  if (code == BuiltinOperator::BIDIRECTIONAL_SEQUENCE_LSTM) return bidirectional_lstm(scope, op);
  if (code == BuiltinOperator::BIDIRECTIONAL_SEQUENCE_RNN) return bidirectional_rnn(scope, op);
  const ImportedForm form = form_of(code);
  if (op.options_table != form.table) malformed_model(fmt::format("it has no {}", form.table));
  if (int_option(op, "kernel_type") != 0) return basic_lstm(scope, op);
  if (op.outputs.size() != 1) malformed_model("it needs one output");
  if (op.inputs.size() > form.inputs)
    malformed_model(fmt::format("it has {} inputs, more than {}", op.inputs.size(), form.inputs));
  // Its variables, each of which belongs to this operator alone.
  std::vector<ValueId> inputs(op.inputs.size(), kAbsent);
  std::vector<Variable*> held;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool is_state = std::find(form.states.begin(), form.states.end(), i) != form.states.end();
    inputs[i] = is_state ? kAbsent : value(scope, op.inputs[i]);
  }
  for (size_t i : form.states) {
    if (i >= inputs.size()) malformed_model(fmt::format("it needs its input {}", i));
    held.push_back(&take_state(scope, op, i, inputs[i]));
  }
  const auto made = stateful_operator(op);
  made->is_sequence = form.is_sequence;
  made->is_call = true;
  made->rank = int_option(op, "rank");
  const StatefulInputs in(graph_, inputs);
  const size_t rank = form.is_sequence ? 3 : 2;
  const bool is_lstm = form.inputs == kLstmInputs;
  is_lstm ? check_lstm(in, op, rank) : code == BuiltinOperator::SVDF ? check_svdf(in, made->rank) : check_rnn(in, rank);
  if (!is_lstm && in.at(0).dtype != DType::kFloat32) throw Unsupported("on integers it is not supported");
  // The batch is the state's.
  const core::Dim batch = in.at(form.states[0]).shape[0];
  const size_t batch_axis = form.is_sequence && made->time_major ? 1 : 0;
  need_equal(in.at(0).shape[batch_axis], batch, "the batch of the data is not that of the state");
  if (is_lstm && in.at(0).quantization) {
    const tfl::Tensor& hidden = scope.from.tensors[static_cast<size_t>(op.intermediates[kStepResult])];
    if (quantization_of(hidden) != in.at(18).quantization)
      throw Unsupported("the state has another scale than the result of a step");
  }
  Shape shape = in.at(0).shape;
  shape.back() = code == BuiltinOperator::SVDF ? in.at(1).shape[0] / made->rank : in.at(form.states[0]).shape[1];
  const tfl::Tensor& tensor = scope.from.tensors[static_cast<size_t>(op.outputs[0])];
  need_numbers(tensor);
  compare_shape(shape, tensor);
  const std::optional<core::Quantization> quantization = quantization_of(tensor);
  if (tensor.dtype != in.at(0).dtype || quantization.has_value() != in.at(0).quantization.has_value())
    throw Unsupported(fmt::format("output '{}' is {}, and the data is not", tensor.name, tensor.type));
  const ValueId result = add_stateful(made, inputs, form.states, held, {tensor.dtype, shape, std::nullopt});
  graph_.at(result).name = tensor.name;
  set_scales(result, quantization);
  scope.values[static_cast<size_t>(op.outputs[0])] = result;
}

}  // namespace lowtide::layout
