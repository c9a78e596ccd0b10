// SPDX-License-Identifier: Apache-2.0
#include "tools/library/absent_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "schemas/tflite_generated.h"
#include "stream/error.h"

namespace lowtide::tools {
namespace {

using tflite::BuiltinOperator;

// Inputs that LiteRT's kernels read with GetOptionalInputTensor, and biases that delegates do not need.
struct Row {
  BuiltinOperator op;
  std::vector<size_t> optional;
};
const std::vector<Row>& rows() {
  static const std::vector<size_t> lstm = {1, 5, 9, 10, 11, 12, 16, 17, 20, 21, 22, 23};
  static const std::vector<Row> table = {
      {BuiltinOperator::CONV_2D, {2}},
      {BuiltinOperator::CONV_3D, {2}},
      {BuiltinOperator::CONV_3D_TRANSPOSE, {3}},
      {BuiltinOperator::DEPTHWISE_CONV_2D, {2}},
      {BuiltinOperator::FULLY_CONNECTED, {2}},
      {BuiltinOperator::PAD, {2}},
      {BuiltinOperator::SVDF, {3}},
      {BuiltinOperator::TRANSPOSE_CONV, {3}},
      {BuiltinOperator::LSTM, lstm},
      {BuiltinOperator::UNIDIRECTIONAL_SEQUENCE_LSTM, lstm},
      {BuiltinOperator::BIDIRECTIONAL_SEQUENCE_LSTM,
       {1, 5, 9, 10, 11, 12, 16, 17, 18, 22, 26, 27, 28, 29, 33, 34, 39, 40, 41, 42, 43, 44, 45, 46, 47}},
      {BuiltinOperator::BIDIRECTIONAL_SEQUENCE_RNN, {9, 10, 11}},
  };
  return table;
}

// The operator passes its inputs to a subgraph, which may not use them, or its kernel is unknown.
bool takes_any(int32_t code) {
  using enum BuiltinOperator;
  constexpr BuiltinOperator kPassing[] = {CUSTOM, CALL, IF, WHILE, STABLEHLO_CASE, STABLEHLO_COMPOSITE};
  return std::any_of(std::begin(kPassing), std::end(kPassing),
                     [&](BuiltinOperator op) { return code == static_cast<int32_t>(op); }) ||
         code > static_cast<int32_t>(BuiltinOperator::MAX);
}

bool may_be_absent(int32_t code, size_t input) {
  if (takes_any(code)) return true;
  for (const Row& row : rows()) {
    if (static_cast<int32_t>(row.op) != code) continue;
    return std::find(row.optional.begin(), row.optional.end(), input) != row.optional.end();
  }
  return false;
}

}  // namespace

void check_absent_inputs(const tfl::Model& model) {
  for (const tfl::Subgraph& graph : model.subgraphs)
    for (size_t i = 0; i < graph.operators.size(); ++i) {
      const tfl::Operator& op = graph.operators[i];
      for (size_t input = 0; input < op.inputs.size(); ++input)
        if (op.inputs[input] < 0 && !may_be_absent(op.code, input))
          throw stream::Error(stream::Code::kMalformed,
                              fmt::format("{} needs its input {}, which is absent", op.name, input),
                              {.file = model.path, .slot = fmt::format("operator {} of subgraph '{}'", i, graph.name)});
    }
}

}  // namespace lowtide::tools
