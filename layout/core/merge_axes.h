// SPDX-License-Identifier: Apache-2.0
// Tensors of more axes than a kernel takes: neighbouring axes to which the op does the same are merged into one.
//
//     SUM over axes 2, 3 of [2,3,4,5,6,7,8]  ->  RESHAPE [6,20,336], SUM over axis 1, RESHAPE [2,3,6,7,8]
//
// Which axes these are is the op's own matter: the column merge_axes of its row (builtin.h), a function on AxisMerger.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "layout/core/builder.h"

namespace lowtide::core {

// The rank that kernel_limits() is about.
int kernel_rank(const Graph& graph, const Op& op);

// Rewrites `op`, which is not in the graph yet, with as few axes as it can have; its data inputs are reshaped by ops in
// front, and its outputs exchanged for smaller ones: `restore` lists (the new output, the old one), which the caller
// connects by reshapes behind the op. False when the op is not one whose axes can be merged.
bool merge_axes(Builder& builder, Op& op, std::vector<std::pair<ValueId, ValueId>>& restore);

// ---- for rows ----

// What an op does to an axis, as a number: neighbours of one number are merged. kAny: it does nothing to it.
using AxisMarks = std::vector<int64_t>;
inline constexpr int64_t kAny = -1;
inline constexpr int64_t kAlone = 1000;  // and above: kAlone + i marks axis i as its own

// Which group each axis falls into.
struct AxisGroups {
  std::vector<int> of;
  int count = 0;

  size_t group_of(size_t axis) const { return static_cast<size_t>(of[axis]); }
};
AxisGroups group_axes(const AxisMarks& marks);

// One op while its axes are merged.
struct AxisMerger {
  Builder& b;
  Op& op;
  std::vector<std::pair<ValueId, ValueId>>& restore;

  const Shape& shape(ValueId id) const { return b.graph.at(id).shape; }
  const Shape& in(size_t i) const { return shape(op.inputs[i]); }
  const Shape& out(size_t i = 0) const { return shape(op.outputs[i]); }
  std::optional<std::vector<int64_t>> ints(size_t i) const { return b.graph.ints(op.inputs[i]); }

  void merge_input(size_t i, const AxisGroups& groups);
  void merge_output(size_t i, const AxisGroups& groups);
  void replace_output(size_t i, Shape to);

  // The first `operands` inputs broadcast against each other; the last `own_axes` axes of all are left alone.
  bool broadcasting(size_t operands, size_t own_axes);
  // Data that are alike but along one axis; `set_axis` is told where that axis is afterwards.
  bool along_one_axis(int axis, size_t first_data, size_t data_count, const std::function<void(int)>& set_axis);
};

// Elementwise ops: all inputs are data and broadcast.
bool merge_elementwise(AxisMerger& m);
// Ops on the last axis of input 0: the axes before it are merged.
bool merge_all_but_last(AxisMerger& m);

}  // namespace lowtide::core
