// SPDX-License-Identifier: Apache-2.0
// LSTM with the BASIC kernel: one matrix [4 * units, data + units] for all gates, and four outputs, of which the last
// two are the kernel's scratch memory. It becomes the LSTM with full inputs (stateful_inputs.h), whose weights are
// parts of that matrix.
//
// The traps: its gates stand in another order; its tanh is fixed, whatever the options say, and it has no limits; it
// writes the new states into its inputs. Source of the semantics: LiteRT's tflite/kernels/lstm.cc, namespace basic.
#include <fmt/format.h>

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
namespace recipe = stream::recipe;

constexpr size_t kData = 0, kHidden = 1, kWeights = 2, kBias = 3, kCell = 4, kBasicInputs = 5, kBasicOutputs = 4;
// Where the rows of the input, forget, cell and output gate begin, in units.
constexpr std::array<int64_t, 4> kRowsOfGate = {0, 2, 1, 3};

}  // namespace

void GraphImport::basic_lstm(SubgraphScope& scope, const tfl::Operator& op) {
  if (int_option(op, "kernel_type") != static_cast<int>(tflite::LSTMKernelType::BASIC))
    malformed_model(fmt::format("kernel_type {} is none", int_option(op, "kernel_type")));
  if (op.inputs.size() != kBasicInputs || op.outputs.size() != kBasicOutputs)
    malformed_model(fmt::format("the basic kernel has {} inputs and {} outputs, not {} and {}", kBasicInputs,
                                kBasicOutputs, op.inputs.size(), op.outputs.size()));
  for (size_t i : {2, 3})
    if (is_read(scope, op.outputs[i]))
      throw Unsupported(fmt::format("output {} is read, which is scratch memory of the basic kernel", i));
  const ValueId data = value(scope, op.inputs[kData]), weights = value(scope, op.inputs[kWeights]),
                bias = value(scope, op.inputs[kBias]);
  if (data == kAbsent || weights == kAbsent || bias == kAbsent) malformed_model("one of its inputs is absent");
  for (ValueId id : {data, weights, bias})
    if (graph_.at(id).dtype != DType::kFloat32)
      throw Unsupported(fmt::format("an input is {}; of the basic kernel only the float form is supported",
                                    stream::dtype_name(graph_.at(id).dtype)));
  const RecipeRef matrix = graph_.at(weights).constant, offsets = graph_.at(bias).constant;
  if (!matrix || !offsets) throw known_at_run_time("weights");
  // The states: LiteRT writes the new ones into the inputs, which only variables keep.
  std::vector<ValueId> inputs(kLstmInputs, kAbsent);
  constexpr size_t kHiddenState = 18, kCellState = 19;
  std::vector<Variable*> held = {&take_state(scope, op, kHidden, inputs[kHiddenState])};
  held.push_back(&take_state(scope, op, kCell, inputs[kCellState]));
  const Shape shape = graph_.at(data).shape, state = graph_.at(inputs[kHiddenState]).shape;
  const std::string misfit =
      fmt::format("data {} and state {} do not fit", stream::to_string(shape), stream::to_string(state));
  if (shape.size() != 2 || state.size() != 2) malformed_model(misfit);
  need_equal(shape[0], state[0], misfit);
  const int64_t units = state[1];
  if (matrix->dims.size() == 2) need_equal(shape[1], matrix->dims[1] - units, "the data do not fit the weights");
  const int64_t columns = shape[1];
  const Shape whole = {4 * units, columns + units};
  if (matrix->dims != whole || offsets->dims != Shape{4 * units})
    malformed_model(fmt::format("weights {} and bias {} do not fit {} units and {} numbers of data",
                                stream::to_string(matrix->dims), stream::to_string(offsets->dims), units, columns));
  inputs[0] = data;
  for (size_t gate = 0; gate < kRowsOfGate.size(); ++gate) {
    const int64_t row = kRowsOfGate[gate] * units;
    const std::string name = graph_.at(weights).name;
    inputs[1 + gate] = graph_.add_constant(recipe::slice(matrix, {row, 0}, {units, columns}, {1, 1}), name);
    inputs[5 + gate] = graph_.add_constant(recipe::slice(matrix, {row, columns}, {units, units}, {1, 1}), name);
    inputs[12 + gate] = graph_.add_constant(recipe::slice(offsets, {row}, {units}, {1}), graph_.at(bias).name);
  }
  check_float_lstm(StatefulInputs(graph_, inputs), 2);
  const auto made = std::make_shared<StatefulOperator>();
  made->name = op.name;
  made->raise = raise_stateful;
  made->activation = static_cast<int>(tflite::ActivationFunctionType::TANH);
  const ValueId result =
      add_stateful(made, inputs, std::array{kHiddenState, kCellState}, held, {DType::kFloat32, state, std::nullopt});
  for (size_t i : {0, 1}) compare_shape(state, scope.from.tensors[static_cast<size_t>(op.outputs[i])]);
  define_output(scope, op, 0, result);
  define_output(scope, op, 1, held[1]->value);
}

}  // namespace lowtide::layout
