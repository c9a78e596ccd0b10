// SPDX-License-Identifier: Apache-2.0
#include "layout/legalise/zero_bias.h"

#include <algorithm>
#include <map>
#include <utility>

#include "layout/core/builtin.h"

namespace lowtide::layout {
namespace {

using core::DType;

// The bias of integer kernels is wider than their data.
DType bias_dtype(DType data) {
  switch (data) {
    case DType::kInt8:
    case DType::kUint8:
      return DType::kInt32;
    case DType::kInt16:
      return DType::kInt64;
    default:
      return data;
  }
}

// Kernels check that the scale of a bias is the product of those of data and weights.
core::Quantization bias_quantization(const core::Quantization& data, const core::Quantization& weights) {
  core::Quantization out;
  for (float scale : weights.scale) out.scale.push_back(data.scale.at(0) * scale);
  return out;
}

}  // namespace

void add_zero_biases(core::Graph& graph) {
  std::map<std::pair<DType, core::Dim>, core::ValueId> zeros;  // shared by all that are not quantized
  for (core::Op& op : graph.ops) {
    const core::Weights* where = core::weights_of(op.kind);
    if (!where || !where->requires_bias || core::has_input(op, where->bias)) continue;
    op.inputs.resize(std::max<size_t>(op.inputs.size(), where->bias + 1), core::kAbsent);
    core::ValueId& bias = op.inputs[where->bias];
    const core::Value& data = graph.at(op.inputs[where->data]);
    const core::Value& weights = graph.at(op.inputs[where->weights]);
    const core::Dim channels = weights.shape.at(static_cast<size_t>(*where->output_axis));
    DType dtype = bias_dtype(data.dtype);
    std::optional<core::Quantization> quantization;
    if (data.quantization && weights.quantization)
      quantization = bias_quantization(*data.quantization, *weights.quantization);
    core::ValueId& shared = zeros.try_emplace({dtype, channels}, core::kAbsent).first->second;
    if (shared != core::kAbsent && !quantization) {
      bias = shared;
      continue;
    }
    bias = graph.add_constant(stream::recipe::fill_value(0, dtype, {channels}));
    graph.at(bias).quantization = quantization;
    if (!quantization) shared = bias;
  }
}

}  // namespace lowtide::layout
