// SPDX-License-Identifier: Apache-2.0
// Ranks that the delegate does not take: values of rank 0 that are computed ("has bad input dims size: 0"), and pads of
// one or two axes ("Invalid paddings tensor shape: expected 4x2 or 3x2, got 2x2").
#include <algorithm>
#include <array>

#include "layout/core/builtin.h"
#include "layout/plain/gpu_rules.h"

namespace lowtide::layout {
namespace {

using core::Shape;

constexpr int kPadAxes = 3;

// The op on values of one element where it has a computed one of none.
bool one_element(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  if (op.kind == Kind::kReshape || op.outputs.size() != 1 || !core::builtin(op.kind).is_elementwise()) return false;
  auto lacks_axes = [&](ValueId value) { return value != core::kAbsent && rewriter.value(value).shape.empty(); };
  auto is_given = [&](ValueId value) { return lacks_axes(value) && !rewriter.is_constant(value); };
  if (!lacks_axes(op.outputs[0]) && std::none_of(op.inputs.begin(), op.inputs.end(), is_given)) return false;
  for (ValueId value : op.inputs)
    if (value != core::kAbsent && rewriter.value(value).quantization) return false;
  rewriter.b.origin = op.origin;
  std::vector<Val> inputs;
  for (ValueId in : op.inputs) inputs.push_back(lacks_axes(in) ? rewriter.b.reshape({in}, {1}) : Val{in});
  const Shape shape = rewriter.value(op.outputs[0]).shape;
  const Val made = rewriter.b.op(op.kind, inputs, op.options);
  replace_result(rewriter, op.outputs[0], rewriter.b.reshape(made, shape));
  return true;
}

bool reduce_to_one(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  auto axes = rewriter.graph.ints(op.inputs[1]);
  if (!axes || !rewriter.value(op.outputs[0]).shape.empty() || rewriter.value(op.inputs[0]).shape.empty() ||
      rewriter.value(op.inputs[0]).quantization)
    return false;
  rewriter.b.origin = op.origin;
  const std::vector<int> which(axes->begin(), axes->end());
  const Val made = rewriter.b.reduce(op.kind, {op.inputs[0]}, which, true);
  replace_result(rewriter, op.outputs[0], rewriter.b.reshape(made, Shape{}));
  return true;
}

bool pad_three_axes(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  const Shape shape = rewriter.value(op.outputs[0]).shape;
  auto pads = rewriter.graph.ints(op.inputs[1]);
  if (!pads || shape.empty() || shape.size() >= kPadAxes || !can_reshape_to(shape) ||
      !can_reshape_to(rewriter.value(op.inputs[0]).shape) || rewriter.value(op.inputs[0]).quantization)
    return false;
  pads->insert(pads->begin(), 2 * (kPadAxes - shape.size()), 0);
  rewriter.b.origin = op.origin;
  std::vector<Val> inputs;
  for (ValueId in : op.inputs) inputs.push_back({in});
  inputs[0] = rewriter.b.lift(inputs[0], kPadAxes);
  inputs[1] = {rewriter.graph.add_ints(*pads, core::DType::kInt32, {kPadAxes, 2})};
  const Val made = rewriter.b.op(op.kind, inputs, op.options);
  replace_result(rewriter, op.outputs[0], rewriter.b.reshape(made, shape));
  return true;
}

constexpr std::array kGpuShapeRules = {
    PlainRule{Kind::kPad, pad_three_axes},       PlainRule{Kind::kPadv2, pad_three_axes},
    PlainRule{Kind::kMirrorPad, pad_three_axes}, PlainRule{Kind::kReduceMax, reduce_to_one},
    PlainRule{Kind::kReduceMin, reduce_to_one},  PlainRule{Kind::kSum, reduce_to_one},
    PlainRule{Kind::kMean, reduce_to_one},       PlainRule{Kind::kReduceProd, reduce_to_one},
    PlainRule{Kind::kAdd, one_element},          PlainRule{Kind::kSub, one_element},
    PlainRule{Kind::kMul, one_element},          PlainRule{Kind::kDiv, one_element},
    PlainRule{Kind::kMaximum, one_element},      PlainRule{Kind::kMinimum, one_element},
    PlainRule{Kind::kPow, one_element},          PlainRule{Kind::kExp, one_element},
    PlainRule{Kind::kLog, one_element},          PlainRule{Kind::kSqrt, one_element},
    PlainRule{Kind::kRsqrt, one_element},        PlainRule{Kind::kNeg, one_element},
    PlainRule{Kind::kAbs, one_element},          PlainRule{Kind::kSquare, one_element},
};

}  // namespace

std::span<const PlainRule> gpu_shape_rules() { return kGpuShapeRules; }

}  // namespace lowtide::layout
