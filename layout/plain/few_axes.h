// SPDX-License-Identifier: Apache-2.0
// Ops on tensors of more than four axes are computed on four or fewer: axes of extent 1 are dropped, neighbouring axes
// to which the op does the same are merged, by RESHAPEs in front and behind. Between two such ops, and beside the
// model's own RESHAPEs, these merge into one or vanish:
//
//     [B,H,W,C] -> RESHAPE [B,H/7,7,W/7,7,C] -> TRANSPOSE -> RESHAPE [n,49,C]        six axes, as exporters write
//     windows [B,H,W,C] -> RESHAPE [B*H/7,7,W/7,7*C] -> TRANSPOSE (0,2,1,3) -> RESHAPE [n,49,C]
//
// GPU delegates take at most four axes, and TRANSPOSE is faster with fewer.
#pragma once

#include "layout/core/graph.h"

namespace lowtide::layout {

// Whether there is an op other than RESHAPE on more than four axes.
bool has_many_axes(const core::Graph& graph);

// Whether RESHAPEs that few_axes() adds are worth their time: no value of the graph has more than four axes afterwards,
// so that a GPU may take it whole, and its ops write at most one element in 20 more. Never with dynamic dimensions,
// which GPU delegates do not take.
bool is_worth_few_axes(const core::Graph& before, const core::Graph& after);

// What cannot be merged to four axes stays as it is.
void few_axes(core::Graph& graph);

}  // namespace lowtide::layout
