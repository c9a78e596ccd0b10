// SPDX-License-Identifier: Apache-2.0
// Removes ops that only repeat elements before ops that broadcast; merges CONCATENATIONs in a row.
//
// The trap: the result must keep its shape: in x + broadcast(y) the repetition may determine it.
#include <vector>

#include "layout/core/builtin.h"
#include "layout/core/kernel_limits.h"
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
    if (core::builtin(op.kind).infer(view)[0].shape != rewriter.value(op.outputs[0]).shape) continue;
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

// For every kernel that broadcasts by itself.
std::vector<FuseRule> make_repeat_rules() {
  std::vector<FuseRule> rules{{Kind::kConcatenation, merge_concats}};
  for (const core::Builtin* row : core::all_builtins()) {
    const core::KernelLimits* limits = core::kernel_limits(row->kind);
    if (row->broadcasts && limits && limits->broadcast_rank > 0) rules.push_back({row->kind, broadcast_in_place});
  }
  return rules;
}

}  // namespace

std::span<const FuseRule> repeat_rules() {
  static const std::vector<FuseRule> rules = make_repeat_rules();
  return rules;
}

}  // namespace lowtide::layout
