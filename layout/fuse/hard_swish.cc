// SPDX-License-Identifier: Apache-2.0
// Replaces exported forms of hard swish, x * clip(x + 3, 0, 6) / 6 in any order, by HARD_SWISH.
#include <array>

#include "layout/fuse/rules.h"
#include "layout/fuse/scalars.h"

namespace lowtide::layout {
namespace {

using core::Activation;

bool adds_three(Rewriter& rewriter, const Op& add, ValueId x) {
  if (add.kind != Kind::kAdd) return false;
  for (size_t side : {size_t{0}, size_t{1}})
    if (add.inputs[side] == x && is_scalar(rewriter, add.inputs[1 - side], 3)) return true;
  return false;
}

// clip(x + 3, 0, 6): RELU6 of an ADD, or an ADD with a fused RELU6.
bool is_clipped(Rewriter& rewriter, ValueId id, ValueId x) {
  const OpId producer = rewriter.producer(id);
  if (producer < 0) return false;
  const Op& op = rewriter.op(producer);
  if (op.kind == Kind::kRelu6) {
    const Op* add = plain_producer(rewriter, op.inputs[0]);
    return add && adds_three(rewriter, *add, x);
  }
  return op.kind == Kind::kAdd && std::get<core::BinaryOptions>(op.options).activation == Activation::kRelu6 &&
         adds_three(rewriter, op, x);
}

// clip(x + 3, 0, 6) / 6 or clip(x / 6 + 1/2, 0, 1), which are equal.
bool is_hard_sigmoid(Rewriter& rewriter, ValueId id, ValueId x) {
  if (auto clipped = scaled(rewriter, id, 1.0 / 6); clipped && is_clipped(rewriter, *clipped, x)) return true;
  const Op* clip = plain_producer(rewriter, id);
  if (!clip || clip->kind != Kind::kRelu0To1) return false;
  const Op* add = plain_producer(rewriter, clip->inputs[0]);
  if (!add || add->kind != Kind::kAdd) return false;
  for (size_t side : {size_t{0}, size_t{1}})
    if (is_scalar(rewriter, add->inputs[side], 0.5) && scaled(rewriter, add->inputs[1 - side], 1.0 / 6) == x)
      return true;
  return false;
}

bool make(Rewriter& rewriter, OpId id, ValueId x) {
  const ValueId out = rewriter.op(id).outputs[0];
  if (rewriter.value(out).shape != rewriter.value(x).shape || rewriter.value(x).dtype != core::DType::kFloat32)
    return false;
  rewriter.b.origin = rewriter.op(id).origin;
  const Val made = rewriter.b.hard_swish({x});
  rewriter.note_new_ops();
  rewriter.replace(out, made.id);
  return true;
}

// x * hard_sigmoid(x)
bool hard_swish_product(Rewriter& rewriter, OpId id) {
  const Op& op = rewriter.op(id);
  if (std::get<core::BinaryOptions>(op.options).activation != Activation::kNone) return false;
  for (size_t side : {size_t{0}, size_t{1}})
    if (is_hard_sigmoid(rewriter, op.inputs[1 - side], op.inputs[side])) return make(rewriter, id, op.inputs[side]);
  return false;
}

// (x * clip(x + 3, 0, 6)) / 6
bool quotient(Rewriter& rewriter, OpId id) {
  const ValueId out = rewriter.op(id).outputs[0];
  if (std::get<core::BinaryOptions>(rewriter.op(id).options).activation != Activation::kNone) return false;
  auto inner = scaled(rewriter, out, 1.0 / 6);
  const Op* times = inner ? plain_producer(rewriter, *inner) : nullptr;
  if (!times || times->kind != Kind::kMul) return false;
  for (size_t side : {size_t{0}, size_t{1}})
    if (is_clipped(rewriter, times->inputs[1 - side], times->inputs[side]))
      return make(rewriter, id, times->inputs[side]);
  return false;
}

constexpr std::array kHardSwishRules = {FuseRule{Kind::kMul, hard_swish_product}, FuseRule{Kind::kMul, quotient},
                                        FuseRule{Kind::kDiv, quotient}};

}  // namespace

std::span<const FuseRule> hard_swish_rules() { return kHardSwishRules; }

}  // namespace lowtide::layout
