// SPDX-License-Identifier: Apache-2.0
// Source of what LiteRT refuses: tflite/kernels/kernel_util.cc, PopulateConvolutionQuantizationParams, and measurements
// with ai-edge-litert 2.3.0.
#include "layout/raise/refused_by_litert.h"

#include <fmt/format.h>

#include <algorithm>

#include "schemas/tflite_generated.h"

namespace lowtide::layout {
namespace {

bool has_weights_by_channel(int32_t code) {
  using tflite::BuiltinOperator;
  const auto builtin = static_cast<BuiltinOperator>(code);
  return builtin == BuiltinOperator::CONV_2D || builtin == BuiltinOperator::DEPTHWISE_CONV_2D ||
         builtin == BuiltinOperator::FULLY_CONNECTED || builtin == BuiltinOperator::TRANSPOSE_CONV;
}

bool has_zero_points_by_channel(const tfl::Tensor& weights) {
  if (!weights.quantization || weights.quantization->zero_point.size() < 2) return false;
  const std::vector<int64_t>& zeros = weights.quantization->zero_point;
  return std::any_of(zeros.begin(), zeros.end(), [](int64_t zero) { return zero != 0; });
}

}  // namespace

std::vector<std::string> refused_by_litert(const tfl::Model& model) {
  size_t count = 0;
  std::string first;
  for (const tfl::Subgraph& graph : model.subgraphs)
    for (size_t i = 0; i < graph.operators.size(); ++i) {
      const tfl::Operator& op = graph.operators[i];
      if (!has_weights_by_channel(op.code) || op.inputs.size() < 2 || op.inputs[1] < 0) continue;
      if (!has_zero_points_by_channel(graph.tensors[static_cast<size_t>(op.inputs[1])])) continue;
      if (count++ == 0) first = fmt::format("{} ({})", i, op.name);
    }
  if (count == 0) return {};
  return {fmt::format("LiteRT does not run this model: the weights of operator {}{} have a zero point for each channel",
                      first, count == 1 ? "" : fmt::format(" and {} more", count - 1))};
}

}  // namespace lowtide::layout
