// SPDX-License-Identifier: Apache-2.0
// Activations that GPU delegates and old runtimes take.
//
// RELU_0_TO_1, of a hard sigmoid or a Clip, behind an op that can have an activation: RELU is fused into that op, and
// MINIMUM of 1 is left. As many ops ("Not supported op RELU_0_TO_1").
//
// The activation of TRANSPOSE_CONV stands behind it. XNNPACK fuses it when it plans, so it costs no time ("Max version
// supported: 3. Requested version 4.").
#include <algorithm>
#include <array>

#include "layout/core/builtin.h"
#include "layout/plain/plain.h"
#include "layout/plain/rules.h"

namespace lowtide::layout {
namespace {

constexpr int kMinimumAxes = 4;  // MINIMUM broadcasts no more

bool fuse_lower_bound(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  const ValueId in = op.inputs[0];
  const OpId producer = rewriter.producer(in);
  const core::Value& value = rewriter.value(in);
  if (producer < 0 || rewriter.uses(in) != 1 || value.dtype != core::DType::kFloat32 || value.quantization ||
      value.rank() > kMinimumAxes)
    return false;
  Op& target = rewriter.op(producer);
  // Not of TRANSPOSE_CONV, which GPU delegates do not take with an activation.
  if (core::builtin(target.kind).activation == core::kNoActivation || target.kind == Kind::kTransposeConv ||
      core::fused_activation(target) != core::Activation::kNone)
    return false;
  core::fuse_activation(target, core::Activation::kRelu);
  rewriter.graph.at(in).name.clear();  // what had it is gone
  rewriter.b.origin = op.origin;
  replace_result(rewriter, op.outputs[0], rewriter.b.minimum({in}, rewriter.b.scalar_like(1, {in})));
  return true;
}

constexpr std::array<Rule, 1> kClampRules = {fuse_lower_bound}, kTransposeConvRules = {activation_behind};

}  // namespace

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

void plain_activations(core::Graph& graph) {
  const bool is_quantized = std::any_of(graph.ops.begin(), graph.ops.end(), [](const Op& op) {
    return op.kind == Kind::kQuantize || op.kind == Kind::kDequantize;
  });
  if (is_quantized) return;  // integer kernels have RELU_0_TO_1, and the activation decides their scales
  core::apply_rules(graph, [](Kind kind) {
    return kind == Kind::kRelu0To1        ? std::span<const Rule>(kClampRules)
           : kind == Kind::kTransposeConv ? std::span<const Rule>(kTransposeConvRules)
                                          : std::span<const Rule>();
  });
}

}  // namespace lowtide::layout
