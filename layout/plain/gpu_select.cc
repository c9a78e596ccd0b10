// SPDX-License-Identifier: Apache-2.0
// SELECT_V2 whose operands are broadcast: the delegate takes what has the result's shape, and constants of one element
// ("if, else tensors must be either be same the shape as output or constant, scalar"). It takes conditions of fewer
// axes than the result, and then fails as a whole.
#include <array>
#include <vector>

#include "layout/plain/gpu_rules.h"

namespace lowtide::layout {
namespace {

// What a constant may become so: the file has it as it is written.
constexpr uint64_t kMostElements = 262'144;

bool select_of_the_same_shape(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  const core::Shape shape = rewriter.value(op.outputs[0]).shape;
  const auto is_broadcast = [&](ValueId in) {
    const core::Value& operand = rewriter.value(in);
    return operand.shape != shape && !(operand.is_constant() && stream::element_count(operand.shape) == 1);
  };
  const auto can_be_repeated = [&](ValueId in) {
    const core::Value& operand = rewriter.value(in);
    return stream::is_static(operand.shape) && !operand.quantization &&
           (!operand.is_constant() || stream::element_count(shape) <= kMostElements);
  };
  if (!stream::is_static(shape) || !can_reshape_to(rewriter.value(op.inputs[0]).shape)) return false;
  std::vector<Val> inputs = {{op.inputs[0]}, {op.inputs[1]}, {op.inputs[2]}};
  rewriter.b.origin = op.origin;
  const bool lacks_axes = rewriter.value(op.inputs[0]).shape.size() < shape.size();
  bool changed = lacks_axes;
  for (const size_t slot : {size_t{1}, size_t{2}}) {
    if (!is_broadcast(op.inputs[slot])) continue;
    if (!can_be_repeated(op.inputs[slot])) return false;
    changed = true;
  }
  if (!changed) return false;
  if (lacks_axes) inputs[0] = rewriter.b.lift(inputs[0], static_cast<int>(shape.size()));
  for (const size_t slot : {size_t{1}, size_t{2}})
    if (is_broadcast(op.inputs[slot])) inputs[slot] = rewriter.b.tile_to(inputs[slot], shape);
  replace_result(rewriter, op.outputs[0], rewriter.b.op(op.kind, inputs, op.options));
  return true;
}

constexpr std::array kGpuSelectRules = {PlainRule{Kind::kSelectV2, select_of_the_same_shape}};

}  // namespace

std::span<const PlainRule> gpu_select_rules() { return kGpuSelectRules; }

}  // namespace lowtide::layout
