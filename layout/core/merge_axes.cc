// SPDX-License-Identifier: Apache-2.0
#include "layout/core/merge_axes.h"

#include <algorithm>

#include "layout/core/builtin.h"

namespace lowtide::core {
namespace {

Shape merged(core::Symbols& symbols, const Shape& shape, const AxisGroups& groups) {
  Shape out(static_cast<size_t>(groups.count), 1);
  for (size_t i = 0; i < shape.size(); ++i) {
    Dim& dim = out[static_cast<size_t>(groups.of[i])];
    dim = symbols.mul(dim, shape[i]);
  }
  return out;
}

Shape lifted(const Shape& shape, size_t rank) {
  Shape out(rank - std::min(rank, shape.size()), 1);
  out.insert(out.end(), shape.begin(), shape.end());
  return out;
}

}  // namespace

AxisGroups group_axes(const AxisMarks& marks) {
  AxisGroups groups;
  int64_t current = kAny;
  for (int64_t mark : marks) {
    const bool joins = groups.count > 0 && (mark == kAny || current == kAny || mark == current);
    if (!joins) {
      ++groups.count;
      current = mark;
    }
    if (current == kAny) current = mark;
    groups.of.push_back(groups.count - 1);
  }
  return groups;
}

void AxisMerger::merge_input(size_t i, const AxisGroups& groups) {
  const Shape to = merged(b.graph.symbols, lifted(in(i), groups.of.size()), groups);
  op.inputs[i] = b.reshape(Val{op.inputs[i]}, to).id;
}

void AxisMerger::merge_output(size_t i, const AxisGroups& groups) {
  replace_output(i, merged(b.graph.symbols, out(i), groups));
}

void AxisMerger::replace_output(size_t i, Shape to) {
  const ValueId old = op.outputs[i];
  op.outputs[i] = b.graph.add_value(b.graph.at(old).dtype, std::move(to));
  b.graph.at(op.outputs[i]).quantization = b.graph.at(old).quantization;
  restore.emplace_back(op.outputs[i], old);
}

bool AxisMerger::broadcasting(size_t operands, size_t own_axes) {
  const Shape full = out();
  const size_t rank = full.size();
  for (size_t i = 0; i < operands; ++i)
    if (in(i).size() > rank) return false;  // no elementwise result: SHAPE, WHERE
  AxisMarks marks;
  for (size_t axis = 0; axis < rank; ++axis) {
    int64_t mark = 0;
    if (axis + own_axes >= rank) {
      mark = kAlone + static_cast<int64_t>(axis);
    } else {
      for (size_t i = 0; i < operands; ++i) {
        const Dim dim = lifted(in(i), rank)[axis];
        mark = mark * 2 + (dim != 1);
        if (dim != 1 && dim != full[axis]) return false;  // may be 1 at run time
      }
      if (full[axis] == 1) mark = kAny;
    }
    marks.push_back(mark);
  }
  const AxisGroups groups = group_axes(marks);
  // The own axes of a matrix product differ between operands: only the axes before them are those of the result.
  for (size_t i = 0; i < operands; ++i) merge_input(i, groups);
  merge_output(0, groups);
  return true;
}

bool AxisMerger::along_one_axis(int axis, size_t first_data, size_t data_count,
                                const std::function<void(int)>& set_axis) {
  const auto rank = static_cast<int>(in(first_data).size());
  AxisMarks marks;
  for (int i = 0; i < rank; ++i) marks.push_back(i < axis ? 0 : i == axis ? 1 : 2);
  const AxisGroups groups = group_axes(marks);
  for (size_t i = 0; i < data_count; ++i) merge_input(first_data + i, groups);
  for (size_t i = 0; i < op.outputs.size(); ++i) merge_output(i, groups);
  set_axis(groups.of[static_cast<size_t>(axis)]);
  return true;
}

bool merge_elementwise(AxisMerger& m) { return m.broadcasting(m.op.inputs.size(), 0); }

bool merge_all_but_last(AxisMerger& m) {
  AxisMarks marks(m.in(0).size(), 0);
  marks.back() = 1;
  const AxisGroups groups = group_axes(marks);
  m.merge_input(0, groups);
  for (size_t i = 0; i < m.op.outputs.size(); ++i) m.merge_output(i, groups);
  return true;
}

int kernel_rank(const Graph& graph, const Op& op) {
  const Builtin& row = builtin(op.kind);
  auto rank = [&](ValueId id) { return graph.at(id).rank(); };
  if (row.limited_rank == LimitedRank::kResult) return rank(op.outputs[0]);
  if (row.limited_rank == LimitedRank::kFirstInput) return rank(op.inputs[0]);
  int highest = 0;
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (row.inputs[i] == Role::kData && op.inputs[i] != kAbsent) highest = std::max(highest, rank(op.inputs[i]));
  return highest;
}

bool merge_axes(Builder& builder, Op& op, std::vector<std::pair<ValueId, ValueId>>& restore) {
  const MergeAxes merge = builtin(op.kind).merge_axes;
  AxisMerger merger{builder, op, restore};
  return merge && merge(merger);
}

}  // namespace lowtide::core
