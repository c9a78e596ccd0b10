// SPDX-License-Identifier: Apache-2.0
// Ranks that the delegate does not take: values of rank 0 that are computed ("has bad input dims size: 0"), pads of one
// or two axes ("Invalid paddings tensor shape: expected 4x2 or 3x2, got 2x2"), and pads of three axes with a batch,
// which it takes and computes wrongly (ai-edge-litert 2.3: [2,9,1] is wrong, [1,9,1] and [1,2,9,1] are right).
#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "layout/core/builtin.h"
#include "layout/plain/gpu_rules.h"

namespace lowtide::layout {
namespace {

using core::Shape;

constexpr int kGpuAxes = 4;

// A value of rank 0 with axes: what it was made of by a RESHAPE, if that has at most so many.
Val with_axes(Rewriter& rewriter, ValueId id, int most) {
  const OpId producer = rewriter.producer(id);
  if (producer >= 0 && rewriter.op(producer).kind == Kind::kReshape) {
    const ValueId before = rewriter.op(producer).inputs[0];
    const int rank = rewriter.value(before).rank();
    if (rank > 0 && rank <= most) return {before};
  }
  return rewriter.b.reshape({id}, {1});
}

// The op on values of one element where it has a computed one of none.
bool one_element(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  if (op.kind == Kind::kReshape || op.outputs.size() != 1 || !core::builtin(op.kind).is_elementwise()) return false;
  auto lacks_axes = [&](ValueId value) { return value != core::kAbsent && rewriter.value(value).shape.empty(); };
  auto is_given = [&](ValueId value) { return lacks_axes(value) && !rewriter.value(value).is_constant(); };
  if (!lacks_axes(op.outputs[0]) && std::none_of(op.inputs.begin(), op.inputs.end(), is_given)) return false;
  for (ValueId value : op.inputs)
    if (value != core::kAbsent && rewriter.value(value).quantization) return false;
  rewriter.b.origin = op.origin;
  std::vector<Val> inputs;
  const Shape shape = rewriter.value(op.outputs[0]).shape;
  const int most = shape.empty() ? kGpuAxes : static_cast<int>(shape.size());  // its broadcast stays as it is
  for (ValueId in : op.inputs) inputs.push_back(lacks_axes(in) ? with_axes(rewriter, in, most) : Val{in});
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

// For each axis of `few` its place in `many`, which has axes of extent 1 besides; nothing where it has others.
std::optional<std::vector<size_t>> places_of_axes(const Shape& few, const Shape& many) {
  std::vector<size_t> out;
  for (size_t axis = 0; axis < many.size(); ++axis) {
    if (out.size() < few.size() && many[axis] == few[out.size()])
      out.push_back(axis);
    else if (many[axis] != 1)
      return std::nullopt;
  }
  if (out.size() < few.size()) return std::nullopt;
  return out;
}

// Whether the delegate pads to this shape, and rightly.
bool is_padded_well(const Shape& padded) {
  return padded.size() == kGpuAxes || (padded.size() + 1 == kGpuAxes && padded[0] == 1);
}

// The axes that a RESHAPE behind gives the result are there before.
bool pad_behind_reshape(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  const ValueId out = op.outputs[0];
  const Shape before = rewriter.value(op.inputs[0]).shape, padded = rewriter.value(out).shape;
  const auto pads = rewriter.graph.ints(op.inputs[1]);
  if (!pads || padded.empty() || padded.size() >= kGpuAxes || is_padded_well(padded) || rewriter.uses(out) != 1 ||
      rewriter.users(out).empty() || rewriter.value(op.inputs[0]).quantization)
    return false;
  const Op user = rewriter.op(rewriter.users(out)[0]);
  if (user.kind != Kind::kReshape || user.inputs[0] != out) return false;
  const Shape shape = rewriter.value(user.outputs[0]).shape;
  const auto places = places_of_axes(padded, shape);
  if (!places || !is_padded_well(shape) || !can_reshape_to(before)) return false;
  Shape lifted(shape.size(), 1);
  std::vector<int64_t> lifted_pads(2 * shape.size(), 0);
  for (size_t axis = 0; axis < places->size(); ++axis) {
    const size_t to = (*places)[axis];
    lifted[to] = before[axis];
    for (const size_t side : {size_t{0}, size_t{1}}) lifted_pads[2 * to + side] = (*pads)[2 * axis + side];
  }
  rewriter.b.origin = op.origin;
  std::vector<Val> inputs;
  for (ValueId in : op.inputs) inputs.push_back({in});
  inputs[0] = rewriter.b.reshape(inputs[0], lifted);
  inputs[1] = {rewriter.graph.add_ints(lifted_pads, core::DType::kInt32, {static_cast<core::Dim>(shape.size()), 2})};
  replace_result(rewriter, user.outputs[0], rewriter.b.op(op.kind, inputs, op.options));
  return true;
}

bool pad_four_axes(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  const Shape shape = rewriter.value(op.outputs[0]).shape;
  auto pads = rewriter.graph.ints(op.inputs[1]);
  if (!pads || shape.empty() || shape.size() >= kGpuAxes || is_padded_well(shape) || !can_reshape_to(shape) ||
      !can_reshape_to(rewriter.value(op.inputs[0]).shape) || rewriter.value(op.inputs[0]).quantization)
    return false;
  pads->insert(pads->begin(), 2 * (kGpuAxes - shape.size()), 0);
  rewriter.b.origin = op.origin;
  std::vector<Val> inputs;
  for (ValueId in : op.inputs) inputs.push_back({in});
  inputs[0] = rewriter.b.lift(inputs[0], kGpuAxes);
  inputs[1] = {rewriter.graph.add_ints(*pads, core::DType::kInt32, {kGpuAxes, 2})};
  const Val made = rewriter.b.op(op.kind, inputs, op.options);
  replace_result(rewriter, op.outputs[0], rewriter.b.reshape(made, shape));
  return true;
}

// PADV2 of integers: "Tensor type(INT32) is not supported.". A constant is put before and behind them.
bool pad_integers(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  const core::Value& in = rewriter.value(op.inputs[0]);
  const auto pads = rewriter.graph.ints(op.inputs[1]);
  if ((in.dtype != core::DType::kInt32 && in.dtype != core::DType::kInt64) || in.quantization || !pads ||
      !stream::is_static(rewriter.value(op.outputs[0]).shape) ||
      (op.kind == Kind::kPadv2 && !rewriter.is_foldable(op.inputs[2])))
    return false;
  const core::DType dtype = in.dtype;
  Shape shape = in.shape;
  rewriter.b.origin = op.origin;
  const stream::RecipeRef padding =
      op.kind == Kind::kPadv2 ? rewriter.value(op.inputs[2]).constant : stream::recipe::fill_value(0, dtype, {});
  Val made{op.inputs[0]};
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (std::all_of(&(*pads)[2 * axis], &(*pads)[2 * axis] + 2, [](int64_t pad) { return pad == 0; })) continue;
    const auto part = [&](int64_t extent) {
      Shape of = shape;
      of[axis] = extent;
      return rewriter.b.constant(stream::recipe::broadcast(stream::recipe::reshape(padding, {}), of));
    };
    std::vector<Val> parts = {made};
    if (const int64_t before = (*pads)[2 * axis]; before > 0) parts.insert(parts.begin(), part(before));
    if (const int64_t behind = (*pads)[2 * axis + 1]; behind > 0) parts.push_back(part(behind));
    made = rewriter.b.concat(parts, static_cast<int>(axis));
    shape[axis] += (*pads)[2 * axis] + (*pads)[2 * axis + 1];
  }
  if (made.id == op.inputs[0]) return false;
  replace_result(rewriter, op.outputs[0], made);
  return true;
}

constexpr std::array kIntegerPadRules = {PlainRule{Kind::kPad, pad_integers}, PlainRule{Kind::kPadv2, pad_integers}};
constexpr std::array kGpuPadRules = {
    PlainRule{Kind::kPad, pad_behind_reshape},       PlainRule{Kind::kPad, pad_four_axes},
    PlainRule{Kind::kPadv2, pad_behind_reshape},     PlainRule{Kind::kPadv2, pad_four_axes},
    PlainRule{Kind::kMirrorPad, pad_behind_reshape}, PlainRule{Kind::kMirrorPad, pad_four_axes}};
constexpr std::array kOneElementRules = {
    PlainRule{Kind::kReduceMax, reduce_to_one},  PlainRule{Kind::kReduceMin, reduce_to_one},
    PlainRule{Kind::kSum, reduce_to_one},        PlainRule{Kind::kMean, reduce_to_one},
    PlainRule{Kind::kReduceProd, reduce_to_one}, PlainRule{Kind::kAdd, one_element},
    PlainRule{Kind::kSub, one_element},          PlainRule{Kind::kMul, one_element},
    PlainRule{Kind::kDiv, one_element},          PlainRule{Kind::kMaximum, one_element},
    PlainRule{Kind::kMinimum, one_element},      PlainRule{Kind::kPow, one_element},
    PlainRule{Kind::kExp, one_element},          PlainRule{Kind::kLog, one_element},
    PlainRule{Kind::kSqrt, one_element},         PlainRule{Kind::kRsqrt, one_element},
    PlainRule{Kind::kNeg, one_element},          PlainRule{Kind::kAbs, one_element},
    PlainRule{Kind::kSquare, one_element},
};

}  // namespace

std::span<const PlainRule> gpu_integer_pad_rules() { return kIntegerPadRules; }
std::span<const PlainRule> gpu_pad_rules() { return kGpuPadRules; }
std::span<const PlainRule> gpu_one_element_rules() { return kOneElementRules; }

}  // namespace lowtide::layout
