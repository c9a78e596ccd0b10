// SPDX-License-Identifier: Apache-2.0
// RELU_0_TO_1, the middle of a hard sigmoid, as RELU and MINIMUM: "Not supported op RELU_0_TO_1". An activation that is
// fused into TRANSPOSE_CONV as an op behind it: "Max version supported: 3. Requested version 4."
#include <array>

#include "layout/plain/gpu_rules.h"

namespace lowtide::layout {
namespace {

bool two_bounds(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  core::Builder& b = rewriter.b;
  if (!is_float(rewriter, op.inputs[0])) return false;
  b.origin = op.origin;
  const Val x{op.inputs[0]};
  replace_result(rewriter, op.outputs[0], b.minimum(b.relu(x), b.scalar_like(1, x)));
  return true;
}

bool activation_behind(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  auto options = std::get<core::TransposeConvOptions>(op.options);
  if (options.activation == core::Activation::kNone || !is_float(rewriter, op.outputs[0])) return false;
  const Kind kind = options.activation == core::Activation::kRelu    ? Kind::kRelu
                    : options.activation == core::Activation::kRelu6 ? Kind::kRelu6
                                                                     : Kind::kReluN1To1;
  options.activation = core::Activation::kNone;
  std::vector<Val> inputs;
  for (ValueId in : op.inputs) inputs.push_back({in});
  rewriter.b.origin = op.origin;
  const Val made = rewriter.b.op(op.kind, inputs, options);
  rewriter.graph.at(made.id).shape = rewriter.value(op.outputs[0]).shape;
  replace_result(rewriter, op.outputs[0], rewriter.b.op(kind, {made}));
  return true;
}

constexpr std::array kGpuActivationRules = {PlainRule{Kind::kRelu0To1, two_bounds},
                                            PlainRule{Kind::kTransposeConv, activation_behind}};

}  // namespace

std::span<const PlainRule> gpu_activation_rules() { return kGpuActivationRules; }

}  // namespace lowtide::layout
