// SPDX-License-Identifier: Apache-2.0
// Rows of a constant that constant indices pick, where the result is larger than the constant: a file for processors
// has the smaller one and the GATHER. The delegate: "Op can only handle 1 or 2 operand(s)".
//
// Elementwise ops with a constant that has batches, in tensors of three axes or fewer: the delegate of LiteRT 2.3 takes
// them, and computes all batches with the first one of the constant. In tensors of four axes it does not.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "layout/core/builtin.h"
#include "layout/plain/gpu_rules.h"

namespace lowtide::layout {
namespace {

bool gather_constant(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  const auto& options = std::get<core::GatherOptions>(op.options);
  const core::Value& data = rewriter.value(op.inputs[0]);
  const core::Shape shape = rewriter.value(op.outputs[0]).shape;
  if (!data.is_constant() || data.quantization || options.batch_dims != 0) return false;
  auto places = rewriter.graph.ints(op.inputs[1]);  // in range: inference has looked
  if (!places) return false;
  const int axis = options.axis < 0 ? options.axis + data.rank() : options.axis;
  stream::RecipeRef rows = stream::recipe::gather(data.constant, axis, std::move(*places));
  rewriter.b.origin = op.origin;
  replace_result(rewriter, op.outputs[0], rewriter.b.constant(stream::recipe::reshape(std::move(rows), shape)));
  return true;
}

core::Shape of_four_axes(core::Shape shape) {
  constexpr size_t kAxes = 4;
  shape.insert(shape.begin(), kAxes - shape.size(), 1);
  return shape;
}

bool constant_with_batches(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  const core::Shape shape = rewriter.value(op.outputs[0]).shape;
  if (op.outputs.size() != 1 || shape.empty() || shape.size() > 3 || rewriter.value(op.outputs[0]).quantization ||
      !can_reshape_to(shape))
    return false;
  const auto has_batches = [&](ValueId in) {
    const core::Value& value = rewriter.value(in);
    return value.is_constant() && value.shape.size() == shape.size() && value.shape[0] != 1;
  };
  if (std::none_of(op.inputs.begin(), op.inputs.end(), has_batches) ||
      std::all_of(op.inputs.begin(), op.inputs.end(), [&](ValueId in) { return rewriter.is_foldable(in); }))
    return false;
  for (const ValueId in : op.inputs)
    if (rewriter.value(in).quantization || !can_reshape_to(rewriter.value(in).shape)) return false;
  rewriter.b.origin = op.origin;
  std::vector<Val> inputs;
  for (const ValueId in : op.inputs) inputs.push_back(rewriter.b.reshape({in}, of_four_axes(rewriter.value(in).shape)));
  replace_result(rewriter, op.outputs[0], rewriter.b.reshape(rewriter.b.op(op.kind, inputs, op.options), shape));
  return true;
}

constexpr std::array kGpuConstantRules = {
    PlainRule{Kind::kGather, gather_constant},         PlainRule{Kind::kAdd, constant_with_batches},
    PlainRule{Kind::kSub, constant_with_batches},      PlainRule{Kind::kMul, constant_with_batches},
    PlainRule{Kind::kDiv, constant_with_batches},      PlainRule{Kind::kMaximum, constant_with_batches},
    PlainRule{Kind::kMinimum, constant_with_batches},  PlainRule{Kind::kPow, constant_with_batches},
    PlainRule{Kind::kLess, constant_with_batches},     PlainRule{Kind::kLessEqual, constant_with_batches},
    PlainRule{Kind::kGreater, constant_with_batches},  PlainRule{Kind::kGreaterEqual, constant_with_batches},
    PlainRule{Kind::kEqual, constant_with_batches},    PlainRule{Kind::kNotEqual, constant_with_batches},
    PlainRule{Kind::kSelectV2, constant_with_batches}, PlainRule{Kind::kFloorDiv, constant_with_batches}};

}  // namespace

std::span<const PlainRule> gpu_constant_rules() { return kGpuConstantRules; }

}  // namespace lowtide::layout
