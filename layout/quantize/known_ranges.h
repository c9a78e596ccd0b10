// SPDX-License-Identifier: Apache-2.0
// The range of each float value of a core graph: what the ranges file says of the value's ONNX name, and what follows
// from that exactly. A value that lowering made, and of which nothing follows, has none: ranges are not guessed.
#pragma once

#include <optional>
#include <vector>

#include "layout/quantize/calibrated.h"

namespace lowtide::layout {

// By value id; nullopt also for constants and for what is not f32. `graph` is tidy.
std::vector<std::optional<Interval>> known_ranges(core::Graph& graph, const Calibrated& calibrated);

// What a fused activation or a kind of op lets through; infinite where there is no limit.
Interval limits_of_activation(const Op& op);
// What two intervals with 0 inside have in common.
Interval cut(const Interval& a, const Interval& b);

// The value's name in ONNX: that of the input, where it is one.
std::string onnx_name(const core::Graph& graph, ValueId id);
// What the ranges file says of that name; null for nothing.
const CalibratedTensor* calibrated_tensor(const core::Graph& graph, const Calibrated& calibrated, ValueId id);

// The interval of a constant's finite elements, with 0 inside; nullopt for one that is not small, or has none.
// `all_finite` may be null.
std::optional<Interval> constant_range(core::Graph& graph, ValueId constant, bool* all_finite);

// Whether an op gives elements of its data as they are, so that integers of one grid stay on it.
bool chooses(const Op& op);

// The values that are data to an op: for an op with weights its first operand alone. Constants and types other than f32
// are left out.
std::vector<ValueId> data_inputs(const core::Graph& graph, const Op& op);
std::vector<ValueId> data_outputs(const core::Graph& graph, const Op& op);
// Whether input `i` is such an operand, constant or not.
bool is_data_input(const Op& op, size_t i);

}  // namespace lowtide::layout
