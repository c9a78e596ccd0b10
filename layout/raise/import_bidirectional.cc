// SPDX-License-Identifier: Apache-2.0
// BIDIRECTIONAL_SEQUENCE_LSTM and _RNN: two sequences of the same data, of which one runs backwards, with weights and
// states of their own. Their results are two outputs, or joined along the last axis.
//
// The traps: further data without weights are what the backward sequence reads in the place of the data; with weights
// both read the data and the further data. Some forms LiteRT's float kernels compute wrongly (as of version 2.1, by
// their source and by trial); these are refused, each with what is wrong. Source of the semantics: LiteRT's
// tflite/kernels/ bidirectional_sequence_lstm.cc, bidirectional_sequence_rnn.cc.
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
#include "stream/error.h"

namespace lowtide::layout {
namespace {

using stream::Unsupported;

constexpr size_t kBidirectionalLstmInputs = 48, kBidirectionalRnnInputs = 12;
constexpr size_t kSequenceRank = 3;

}  // namespace

// One of both sequences: where its inputs stand among those of the operator, in the order of stateful_inputs.h; -1:
// none.
struct GraphImport::Half {
  std::vector<int> inputs;
  std::vector<size_t> states;  // in this order
  size_t further_data = 0;
  bool is_lstm, is_backwards;
};

ValueId GraphImport::half_of_sequence(SubgraphScope& scope, const tfl::Operator& op, const Half& half) {
  std::vector<ValueId> inputs(half.inputs.size(), kAbsent);
  std::vector<Variable*> held;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool is_state = std::find(half.states.begin(), half.states.end(), i) != half.states.end();
    if (half.inputs[i] >= 0 && !is_state) inputs[i] = value(scope, op.inputs[static_cast<size_t>(half.inputs[i])]);
  }
  for (size_t i : half.states) {
    held.push_back(&take_state(scope, op, static_cast<size_t>(half.inputs[i]), inputs[i]));
    if (graph_.at(inputs[i]).rank() != 2)
      throw Unsupported(
          fmt::format("the state '{}' has rank {}, not 2", graph_.at(inputs[i]).name, graph_.at(inputs[i]).rank()));
  }
  for (ValueId id : inputs)
    if (id != kAbsent && graph_.at(id).dtype != DType::kFloat32)
      throw Unsupported(
          fmt::format("an input is {}; only the float kernel is supported", stream::dtype_name(graph_.at(id).dtype)));
  const auto made = stateful_operator(op);
  made->is_sequence = true;
  made->is_backwards = half.is_backwards;
  made->further_data = half.further_data;
  const StatefulInputs in(graph_, inputs);
  half.is_lstm ? check_float_lstm(in, kSequenceRank) : check_rnn(in, kSequenceRank);
  const Shape data = in.at(0).shape;
  const core::Dim batch = in.at(half.states[0]).shape[0];
  need_equal(data[made->time_major ? 1 : 0], batch, "the batch of the data is not that of the state");
  if (half.further_data != 0) {
    const core::Dim columns = in.extent(half.further_data, kSequenceRank, 2),
                    units = in.at(half.is_lstm ? 2 : 1).shape[0];
    in.expect(half.further_data, {data[0], data[1], columns});
    for (size_t i = half.further_data + 1; i < inputs.size(); ++i)
      if (i > half.further_data + 1 || !half.is_lstm || in.has(1)) in.expect(i, {units, columns});
  }
  Shape shape = data;
  shape.back() = in.at(half.states[0]).shape[1];
  return add_stateful(made, std::move(inputs), half.states, held, {DType::kFloat32, std::move(shape), std::nullopt});
}

void GraphImport::join_halves(SubgraphScope& scope, const tfl::Operator& op, ValueId forwards, ValueId backwards) {
  if (op.outputs.size() == 1)
    return add(scope, Kind::kConcatenation, {forwards, backwards}, core::ConcatOptions{.axis = 2}, op.outputs);
  for (size_t i : {0, 1}) {
    const tfl::Tensor& tensor = scope.from.tensors[static_cast<size_t>(op.outputs[i])];
    compare_shape(graph_.at(i == 0 ? forwards : backwards).shape, tensor);
    define_output(scope, op, i, i == 0 ? forwards : backwards);
  }
}

// Whether there are further data, and whether they have weights, which are 2 * n inputs from `weights` to the last.
std::pair<bool, bool> GraphImport::further_data(SubgraphScope& scope, const tfl::Operator& op, size_t aux,
                                                size_t weights) {
  const bool has_data = op.inputs[aux] >= 0;
  size_t there = 0;
  for (size_t i = weights; i < op.inputs.size(); ++i) there += op.inputs[i] >= 0 ? 1 : 0;
  if (there > 0 && !has_data) malformed_model("there are weights for further data, but no such data");
  if (there > 0 && there < op.inputs.size() - weights)
    throw Unsupported("some of the weights for further data are absent");
  const bool is_merged = flag_option(op, "merge_outputs");
  if (op.outputs.size() != (is_merged ? 1 : 2)) malformed_model(fmt::format("it has {} outputs", op.outputs.size()));
  if (has_data && there == 0) {
    const ValueId own = value(scope, op.inputs[0]), other = value(scope, op.inputs[aux]);
    if (graph_.at(own).shape != graph_.at(other).shape)
      throw Unsupported("the data of the backward sequence differ in shape from those of the forward one");
  }
  return {has_data, there > 0};
}

void GraphImport::bidirectional_lstm(SubgraphScope& scope, const tfl::Operator& op) {
  if (op.options_table != "BidirectionalSequenceLSTMOptions")
    malformed_model("it has no BidirectionalSequenceLSTMOptions");
  if (op.inputs.size() != kBidirectionalLstmInputs || op.inputs[0] < 0)
    malformed_model(fmt::format("it has {} inputs in place of {}", op.inputs.size(), kBidirectionalLstmInputs));
  constexpr int kOwn = 17, kStates = 35, kAux = 39, kAuxWeights = 40, kGates = 4;
  const auto [has_data, has_weights] = further_data(scope, op, kAux, kAuxWeights);
  const bool is_one = op.inputs[kStates] >= 0 &&
                      scope.from.tensors[static_cast<size_t>(op.inputs[kStates])].shape.size() == 2 &&
                      scope.from.tensors[static_cast<size_t>(op.inputs[kStates])].shape[0] == 1;
  if (op.outputs.size() == 1 && !flag_option(op, "time_major") && !is_one)
    throw Unsupported(
        "one output of several sequences with batch first: LiteRT's kernel takes the states of all but the first "
        "sequence from wrong places");
  std::array<ValueId, 2> made{};
  for (int side : {0, 1}) {
    Half half{.inputs = {}, .states = {18, 19}, .is_lstm = true, .is_backwards = side == 1};
    half.inputs.push_back(side == 1 && has_data && !has_weights ? kAux : 0);
    for (int i = 1; i <= kOwn; ++i) half.inputs.push_back(side * kOwn + i);
    half.inputs.insert(half.inputs.end(), {kStates + 2 * side, kStates + 2 * side + 1, -1, -1, -1, -1});
    if (has_weights) {
      half.further_data = half.inputs.size();
      half.inputs.push_back(kAux);
      for (int gate = 0; gate < kGates; ++gate) half.inputs.push_back(kAuxWeights + side * kGates + gate);
    }
    made[static_cast<size_t>(side)] = half_of_sequence(scope, op, half);
  }
  join_halves(scope, op, made[0], made[1]);
}

void GraphImport::bidirectional_rnn(SubgraphScope& scope, const tfl::Operator& op) {
  if (op.options_table != "BidirectionalSequenceRNNOptions")
    malformed_model("it has no BidirectionalSequenceRNNOptions");
  if (op.inputs.size() != kBidirectionalRnnInputs || op.inputs[0] < 0)
    malformed_model(fmt::format("it has {} inputs in place of {}", op.inputs.size(), kBidirectionalRnnInputs));
  constexpr int kOwn = 4, kAux = 9, kAuxWeights = 10;
  const auto [has_data, has_weights] = further_data(scope, op, kAux, kAuxWeights);
  if (flag_option(op, "time_major") && op.outputs.size() == 2)
    throw Unsupported("two outputs with time first: LiteRT's kernel gives the second one the shape of batch first");
  if (has_data && !has_weights && !flag_option(op, "time_major"))
    throw Unsupported("further data without weights, with batch first: LiteRT's kernel does not read them");
  if (has_weights && flag_option(op, "time_major")) {
    const ValueId own = value(scope, op.inputs[0]), other = value(scope, op.inputs[kAux]);
    if (graph_.at(own).shape != graph_.at(other).shape)
      throw Unsupported("further data of another size, with time first: LiteRT's kernel reads them at wrong places");
  }
  std::array<ValueId, 2> made{};
  for (int side : {0, 1}) {
    Half half{.inputs = {}, .states = {4}, .is_lstm = false, .is_backwards = side == 1};
    half.inputs.push_back(side == 1 && has_data && !has_weights ? kAux : 0);
    for (int i = 1; i <= kOwn; ++i) half.inputs.push_back(side * kOwn + i);
    if (has_weights) {
      half.further_data = half.inputs.size();
      half.inputs.insert(half.inputs.end(), {kAux, kAuxWeights + side});
    }
    made[static_cast<size_t>(side)] = half_of_sequence(scope, op, half);
  }
  join_halves(scope, op, made[0], made[1]);
}

}  // namespace lowtide::layout
