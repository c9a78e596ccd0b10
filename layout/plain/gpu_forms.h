// SPDX-License-Identifier: Apache-2.0
// What `--for gpu` writes otherwise (docs/gpu.md): forms that LiteRT's GPU delegate takes and that cost a processor
// something. Each rule says what the delegate says of the form that it replaces.
#pragma once

#include <string>
#include <vector>

#include "layout/core/graph.h"

namespace lowtide::layout {

// Before the last fusing, which merges the RESHAPEs that it leaves. Returns the names of inputs that took i64 and take
// i32 now.
std::vector<std::string> gpu_forms(core::Graph& graph);

// Two of its ideas alone, which often take no more operators: PAD of rank 1 and 2 as of rank 3, and results of rank 0
// with an axis.
void pads_of_three_axes(core::Graph& graph);
void at_least_one_axis(core::Graph& graph);

// After it: activations that the delegate does not take as they were fused.
void gpu_activations(core::Graph& graph);
// Behind the merging of equal ops, which would undo it: outputs that the delegate would not write.
void gpu_outputs(core::Graph& graph);
// Behind the passes that select: operands of SELECT_V2 that are broadcast.
void gpu_selections(core::Graph& graph);

}  // namespace lowtide::layout
