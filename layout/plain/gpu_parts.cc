// SPDX-License-Identifier: Apache-2.0
// SPLIT, SPLIT_V and UNPACK of floats whose results the delegate would misread (parts.h) are a SLICE each; so are those
// of integers: "Tensor type(INT32) is not supported."
#include <algorithm>
#include <array>

#include "layout/plain/gpu_rules.h"
#include "layout/plain/parts.h"

namespace lowtide::layout {
namespace {

bool slice_parts(Rewriter& rewriter, OpId id, ValueId data, int64_t axis) {
  const Op op = rewriter.op(id);
  if (rewriter.value(data).is_constant() || op.outputs.size() < 2) return false;
  const bool is_integer = rewriter.value(data).dtype == core::DType::kInt32 && !rewriter.value(data).quantization;
  if (!is_integer && !is_float(rewriter, data)) return false;
  if (!is_integer && !are_parts_misread(rewriter, {op.outputs[0]}, {op.outputs.begin() + 1, op.outputs.end()}))
    return false;
  const core::Shape shape = rewriter.value(data).shape;
  const size_t along = static_cast<size_t>(axis < 0 ? axis + rewriter.value(data).rank() : axis);
  const bool keeps_axis = op.kind != Kind::kUnpack;
  std::vector<core::Shape> shapes;
  for (ValueId part : op.outputs) shapes.push_back(rewriter.value(part).shape);
  if (core::is_symbol(shape[along]) || !std::all_of(shapes.begin(), shapes.end(), can_reshape_to) ||
      (keeps_axis && std::any_of(shapes.begin(), shapes.end(),
                                 [&](const core::Shape& part) { return core::is_symbol(part[along]); })))
    return false;
  rewriter.b.origin = op.origin;
  std::vector<int64_t> begin(shape.size(), 0);
  std::vector<core::Dim> size(shape.size(), -1);
  for (size_t i = 0; i < shapes.size(); ++i) {
    size[along] = keeps_axis ? shapes[i][along] : 1;
    const Val part = rewriter.b.slice({data}, begin, size);
    begin[along] += static_cast<int64_t>(size[along]);
    replace_result(rewriter, op.outputs[i], keeps_axis ? part : rewriter.b.reshape(part, shapes[i]));
  }
  return true;
}

bool slice_split(Rewriter& rewriter, OpId id) {
  const Op& op = rewriter.op(id);
  const size_t axis_slot = op.kind == Kind::kSplit ? 0 : 2, data_slot = op.kind == Kind::kSplit ? 1 : 0;
  const auto axis = rewriter.graph.ints(op.inputs[axis_slot]);
  return axis && axis->size() == 1 && slice_parts(rewriter, id, op.inputs[data_slot], axis->front());
}

bool slice_unpack(Rewriter& rewriter, OpId id) {
  const Op& op = rewriter.op(id);
  return slice_parts(rewriter, id, op.inputs[0], std::get<core::PackOptions>(op.options).axis);
}

constexpr std::array kGpuPartRules = {PlainRule{Kind::kSplit, slice_split}, PlainRule{Kind::kSplitV, slice_split},
                                      PlainRule{Kind::kUnpack, slice_unpack}};

}  // namespace

std::span<const PlainRule> gpu_part_rules() { return kGpuPartRules; }

}  // namespace lowtide::layout
