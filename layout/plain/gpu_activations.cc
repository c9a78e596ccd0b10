// SPDX-License-Identifier: Apache-2.0
// RELU_0_TO_1, the middle of a hard sigmoid, as RELU and MINIMUM: "Not supported op RELU_0_TO_1". And what
// activations.cc does with TRANSPOSE_CONV, in models with integers too.
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

constexpr std::array kGpuActivationRules = {PlainRule{Kind::kRelu0To1, two_bounds},
                                            PlainRule{Kind::kTransposeConv, activation_behind}};

}  // namespace

std::span<const PlainRule> gpu_activation_rules() { return kGpuActivationRules; }

}  // namespace lowtide::layout
