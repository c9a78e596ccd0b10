// SPDX-License-Identifier: Apache-2.0
// Removes ops that only repeat elements before ops that broadcast; merges CONCATENATIONs in a row.
//
// The trap: the result must keep its shape: in x + broadcast(y) the repetition may determine it.
#include <algorithm>
#include <array>

#include "layout/core/traits.h"
#include "layout/fuse/rules.h"

namespace lowtide::layout {
namespace {

// The input of a BROADCAST_TO, or of a TILE of axes of size 1; kAbsent for other ops.
ValueId repeated_by(Rewriter& rewriter, OpId producer) {
  if (producer < 0) return core::kAbsent;
  const Op& op = rewriter.op(producer);
  if (op.kind == Kind::kBroadcastTo) return op.inputs[0];
  if (op.kind != Kind::kTile) return core::kAbsent;
  const core::Shape& shape = rewriter.value(op.inputs[0]).shape;
  auto repeats = rewriter.graph.ints(op.inputs[1]);
  if (!repeats) return core::kAbsent;
  for (size_t axis = 0; axis < shape.size(); ++axis)
    if ((*repeats)[axis] != 1 && shape[axis] != 1) return core::kAbsent;
  return op.inputs[0];
}

bool broadcast_in_place(Rewriter& rewriter, OpId id) {
  const Op& op = rewriter.op(id);
  for (size_t slot = 0; slot < op.inputs.size(); ++slot) {
    const ValueId source = repeated_by(rewriter, rewriter.producer(op.inputs[slot]));
    if (source == core::kAbsent) continue;
    std::vector<ValueId> inputs = op.inputs;
    inputs[slot] = source;
    const core::OpView view{rewriter.graph, op.kind, inputs, op.options};
    if (core::traits(op.kind).infer(view)[0].shape != rewriter.value(op.outputs[0]).shape) continue;
    rewriter.set_input(id, slot, source);
    return true;
  }
  return false;
}

bool merge_concats(Rewriter& rewriter, OpId id) {
  const int axis = std::get<core::ConcatOptions>(rewriter.op(id).options).axis;
  std::vector<ValueId> parts;
  for (ValueId part : rewriter.op(id).inputs) {
    const OpId inner = rewriter.sole_producer(part, Kind::kConcatenation);
    const bool joins = inner >= 0 && std::get<core::ConcatOptions>(rewriter.op(inner).options).axis == axis &&
                       !rewriter.value(part).quantization;
    if (joins)
      parts.insert(parts.end(), rewriter.op(inner).inputs.begin(), rewriter.op(inner).inputs.end());
    else
      parts.push_back(part);
  }
  if (parts == rewriter.op(id).inputs) return false;
  std::vector<Val> vals;
  for (ValueId part : parts) vals.push_back({part});
  rewriter.b.origin = rewriter.op(id).origin;
  const ValueId old = rewriter.op(id).outputs[0];
  const Val joined = rewriter.b.concat(vals, axis);
  rewriter.note_new_ops();
  rewriter.graph.at(joined.id).shape = rewriter.value(old).shape;
  rewriter.graph.at(joined.id).quantization = rewriter.value(old).quantization;
  rewriter.replace(old, joined.id);
  return true;
}

constexpr std::array kRepeatRules = {
    FuseRule{Kind::kAdd, broadcast_in_place},        FuseRule{Kind::kSub, broadcast_in_place},
    FuseRule{Kind::kMul, broadcast_in_place},        FuseRule{Kind::kDiv, broadcast_in_place},
    FuseRule{Kind::kMaximum, broadcast_in_place},    FuseRule{Kind::kMinimum, broadcast_in_place},
    FuseRule{Kind::kPow, broadcast_in_place},        FuseRule{Kind::kFloorDiv, broadcast_in_place},
    FuseRule{Kind::kFloorMod, broadcast_in_place},   FuseRule{Kind::kSquaredDifference, broadcast_in_place},
    FuseRule{Kind::kEqual, broadcast_in_place},      FuseRule{Kind::kNotEqual, broadcast_in_place},
    FuseRule{Kind::kLess, broadcast_in_place},       FuseRule{Kind::kLessEqual, broadcast_in_place},
    FuseRule{Kind::kGreater, broadcast_in_place},    FuseRule{Kind::kGreaterEqual, broadcast_in_place},
    FuseRule{Kind::kLogicalAnd, broadcast_in_place}, FuseRule{Kind::kLogicalOr, broadcast_in_place},
    FuseRule{Kind::kSelectV2, broadcast_in_place},   FuseRule{Kind::kConcatenation, merge_concats},
};

}  // namespace

std::span<const FuseRule> repeat_rules() { return kRepeatRules; }

}  // namespace lowtide::layout
