// SPDX-License-Identifier: Apache-2.0
// Ops whose operands have become constants are constants too: what an exporter computes from a lookup that was folded.
// GPU delegates take no op without a computed operand: "Op can only handle 1 or 2 operand(s)".
#include <algorithm>
#include <array>
#include <vector>

#include "layout/core/builtin.h"
#include "layout/plain/rules.h"

namespace lowtide::layout {
namespace {

bool fold_again(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  const core::Builtin& row = core::builtin(op.kind);
  const ValueId out = op.outputs[0];
  if (!std::all_of(op.inputs.begin(), op.inputs.end(), [&](ValueId in) { return rewriter.is_foldable(in); }) ||
      rewriter.value(out).quantization ||
      (row.activation != core::kNoActivation && core::fused_activation(op) != core::Activation::kNone))
    return false;
  const size_t before = rewriter.graph.ops.size();
  rewriter.b.origin = op.origin;
  std::vector<Val> inputs;
  for (const ValueId in : op.inputs) inputs.push_back({in});
  const Val made = rewriter.b.op(op.kind, inputs, op.options);
  if (rewriter.is_foldable(made.id)) {
    replace_result(rewriter, out, made);
    return true;
  }
  for (size_t i = before; i < rewriter.graph.ops.size(); ++i) rewriter.graph.ops[i].kind = Kind::kDead;
  rewriter.note_new_ops();
  return false;
}

constexpr std::array kFoldRules = {
    PlainRule{Kind::kReshape, fold_again},  PlainRule{Kind::kTranspose, fold_again},
    PlainRule{Kind::kGather, fold_again},   PlainRule{Kind::kSlice, fold_again},
    PlainRule{Kind::kLogistic, fold_again}, PlainRule{Kind::kMul, fold_again},
    PlainRule{Kind::kAdd, fold_again},      PlainRule{Kind::kSub, fold_again},
    PlainRule{Kind::kLess, fold_again},     PlainRule{Kind::kSelectV2, fold_again},
};

}  // namespace

std::span<const PlainRule> fold_rules() { return kFoldRules; }

}  // namespace lowtide::layout
