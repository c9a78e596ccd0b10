// SPDX-License-Identifier: Apache-2.0
// Tensors of more axes than a kernel takes: neighbouring axes to which the op does the same are merged into one.
//
//     SUM over axes 2, 3 of [2,3,4,5,6,7,8]  ->  RESHAPE [6,20,336], SUM over axis 1, RESHAPE [2,3,6,7,8]
#pragma once

#include "layout/core/builder.h"

namespace lowtide::layout {

// The rank that kernel_limits speaks of: of the data, for most.
int kernel_rank(const core::Graph& graph, const core::Op& op);

// Rewrites `op`, which is not in the graph yet, with as few axes as it can have; its data inputs are reshaped by ops in
// front, and its outputs exchanged for smaller ones: `restore` lists (the new output, the old one), which the caller
// connects by reshapes behind the op. False when the op is not one whose axes can be merged.
bool merge_axes(core::Builder& builder, core::Op& op, std::vector<std::pair<core::ValueId, core::ValueId>>& restore);

}  // namespace lowtide::layout
