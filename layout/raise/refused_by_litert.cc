// SPDX-License-Identifier: Apache-2.0
// Source of what LiteRT refuses: tflite/kernels/kernel_util.cc, PopulateConvolutionQuantizationParams, and measurements
// with ai-edge-litert 2.3.0. Of biases: conv.cc, transpose_conv.cc and fully_connected.cc, where quantized_bias_type
// says how many bits are read.
#include "layout/raise/refused_by_litert.h"

#include <fmt/format.h>

#include <algorithm>

#include "layout/raise/options.h"
#include "schemas/tflite_generated.h"

namespace lowtide::layout {
namespace {

bool has_weights_by_channel(int32_t code) {
  using tflite::BuiltinOperator;
  const auto builtin = static_cast<BuiltinOperator>(code);
  return builtin == BuiltinOperator::CONV_2D || builtin == BuiltinOperator::DEPTHWISE_CONV_2D ||
         builtin == BuiltinOperator::FULLY_CONNECTED || builtin == BuiltinOperator::TRANSPOSE_CONV;
}

// Kernels that round floats to integers as they run do not look at zero points.
bool has_float_data(const tfl::Subgraph& graph, const tfl::Operator& op) {
  const bool is_transposed = static_cast<tflite::BuiltinOperator>(op.code) == tflite::BuiltinOperator::TRANSPOSE_CONV;
  const size_t data = is_transposed ? 2 : 0;
  return data < op.inputs.size() && op.inputs[data] >= 0 &&
         stream::is_float(graph.tensors[static_cast<size_t>(op.inputs[data])].dtype);
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
      if (has_float_data(graph, op)) continue;
      if (!has_zero_points_by_channel(graph.tensors[static_cast<size_t>(op.inputs[1])])) continue;
      if (count++ == 0) first = fmt::format("{} ({})", i, op.name);
    }
  if (count == 0) return {};
  return {fmt::format("LiteRT does not run this model: the weights of operator {}{} have a zero point for each channel",
                      first, count == 1 ? "" : fmt::format(" and {} more", count - 1))};
}

std::optional<std::string> misread_bias(const tfl::Subgraph& graph, const tfl::Operator& op) {
  using tflite::BuiltinOperator;
  const auto code = static_cast<BuiltinOperator>(op.code);
  const bool is_product = code == BuiltinOperator::FULLY_CONNECTED,
             is_transposed = code == BuiltinOperator::TRANSPOSE_CONV;
  if (code != BuiltinOperator::CONV_2D && !is_transposed && !is_product) return std::nullopt;
  const auto tensor = [&](size_t i) {
    return i < op.inputs.size() && op.inputs[i] >= 0 ? &graph.tensors[static_cast<size_t>(op.inputs[i])] : nullptr;
  };
  const tfl::Tensor *data = tensor(is_transposed ? 2 : 0), *weights = tensor(1), *bias = tensor(is_transposed ? 3 : 2);
  if (!data || !weights || !bias || data->dtype != stream::DType::kInt16 || bias->dtype != stream::DType::kInt32 ||
      int_option(op, "quantized_bias_type") != static_cast<int>(tflite::TensorType::FLOAT32))
    return std::nullopt;
  // Products of weights without a zero point have another kernel, which reads 32 bits.
  const bool has_zero =
      weights->quantization && !weights->quantization->zero_point.empty() && weights->quantization->zero_point[0] != 0;
  if (is_product && !has_zero) return std::nullopt;
  return "a bias of 32 bits with data of 16 bits, of which LiteRT's kernel reads 64 bits, because option "
         "quantized_bias_type is not set";
}

}  // namespace lowtide::layout
