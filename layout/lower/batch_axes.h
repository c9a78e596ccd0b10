// SPDX-License-Identifier: Apache-2.0
// What operators do with an axis of an input, as far as a changed batch has to know it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "stream/onnx/model.h"
#include "stream/shape.h"

namespace lowtide::layout {

int64_t int_attribute(const onnx::Node& node, std::string_view name);  // 0 where it is absent
int64_t axis_attribute(const onnx::Node& node, int64_t absent, size_t rank);

// `axis` of the input `k` has no counterpart in the output, or one that the operator is free to make.
bool vanishes(const onnx::Node& node, size_t k, size_t axis, size_t rank);

// Which axes of input 0 constant indices count.
struct Indices {
  size_t operand = 0;
  int64_t first = 0, count = 0;
  bool has(int64_t axis) const { return first >= 0 && axis >= first && axis - first < count; }
};
// `inputs` are the shapes of all inputs, `rank` is that of the first.
std::optional<Indices> indices_of(const onnx::Node& node, size_t rank, const std::vector<stream::Shape>& inputs);

// Where a Slice starts along the axes that it cuts. `contents` are the integers of its inputs that are known; empty for
// other operators, and where the starts or their axes are computed at run time.
std::map<int64_t, int64_t> slice_starts(const onnx::Node& node, size_t rank,
                                        const std::vector<std::optional<stream::Shape>>& contents);

// `axis` of the input `k` counts the channels of a convolution's weights, by which its groups are divided.
bool is_of_channels(const onnx::Node& node, size_t k, size_t axis, size_t rank);

// The axis of input 0 that a recurrence takes step by step; nullopt for other operators.
std::optional<size_t> axis_of_steps(const onnx::Node& node);

// Axes of an Einsum's operands with equal labels are one; those of an ellipsis have labels, too. nullopt for others.
std::optional<int> einsum_label(const onnx::Node& node, size_t k, size_t axis, size_t rank);

}  // namespace lowtide::layout
