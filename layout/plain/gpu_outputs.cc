// SPDX-License-Identifier: Apache-2.0
// An output of the model that is a sum or product with a constant, and that only FULLY_CONNECTED uses: LiteRT's GPU
// delegate multiplies the constant into the weights, and writes nothing to the output. It is computed twice instead.
#include <algorithm>
#include <array>

#include "layout/plain/gpu_rules.h"

namespace lowtide::layout {
namespace {

bool compute_output_apart(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  const ValueId result = op.outputs[0];
  const auto& outputs = rewriter.graph.outputs;
  const auto& users = rewriter.users(result);
  if (users.size() != 1 || rewriter.op(users[0]).kind != Kind::kFullyConnected || !is_float(rewriter, result))
    return false;
  if (std::find(outputs.begin(), outputs.end(), result) == outputs.end()) return false;
  if (std::none_of(op.inputs.begin(), op.inputs.end(), [&](ValueId in) { return rewriter.is_foldable(in); }))
    return false;
  const OpId user = users[0];
  rewriter.b.origin = op.origin;
  const Val again = rewriter.b.op(op.kind, {Val{op.inputs[0]}, Val{op.inputs[1]}}, op.options);
  rewriter.note_new_ops();
  for (size_t slot = 0; slot < rewriter.op(user).inputs.size(); ++slot)
    if (rewriter.op(user).inputs[slot] == result) rewriter.set_input(user, slot, again.id);
  return true;
}

constexpr std::array kGpuOutputRules = {PlainRule{Kind::kAdd, compute_output_apart},
                                        PlainRule{Kind::kMul, compute_output_apart}};

}  // namespace

std::span<const PlainRule> gpu_output_rules() { return kGpuOutputRules; }

}  // namespace lowtide::layout
