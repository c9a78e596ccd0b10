// SPDX-License-Identifier: Apache-2.0
#include "layout/legalise/zero_bias.h"

#include <map>
#include <utility>

namespace lowtide::layout {
namespace {

using core::DType;
using core::Kind;

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

// Kernels check that a bias counts in units of data times weights.
core::Quantization bias_quantization(const core::Quantization& data, const core::Quantization& weights) {
  core::Quantization out;
  for (float scale : weights.scale) out.scale.push_back(data.scale.at(0) * scale);
  return out;
}

}  // namespace

void add_zero_biases(core::Graph& graph) {
  std::map<std::pair<DType, core::Dim>, core::ValueId> zeros;  // shared by all that are not quantized
  for (core::Op& op : graph.ops) {
    if (op.kind != Kind::kConv2d && op.kind != Kind::kDepthwiseConv2d) continue;
    op.inputs.resize(3, core::kAbsent);
    if (op.inputs[2] != core::kAbsent) continue;
    const core::Value& data = graph.at(op.inputs[0]);
    const core::Value& weights = graph.at(op.inputs[1]);
    core::Dim channels = weights.shape.at(op.kind == Kind::kConv2d ? 0 : 3);
    DType dtype = bias_dtype(data.dtype);
    std::optional<core::Quantization> quantization;
    if (data.quantization && weights.quantization)
      quantization = bias_quantization(*data.quantization, *weights.quantization);
    core::ValueId& shared = zeros.try_emplace({dtype, channels}, core::kAbsent).first->second;
    if (shared != core::kAbsent && !quantization) {
      op.inputs[2] = shared;
      continue;
    }
    op.inputs[2] = graph.add_constant(stream::recipe::fill_value(0, dtype, {channels}));
    graph.at(op.inputs[2]).quantization = quantization;
    if (!quantization) shared = op.inputs[2];
  }
}

}  // namespace lowtide::layout
