// SPDX-License-Identifier: Apache-2.0
// Phase: ops are written in the forms that most runtimes take, where a processor computes them as fast or faster. GPU
// delegates look up rows by a list of indices only, slice rather than gather a constant place, know no BROADCAST_TO and
// no tensor of more than four axes (docs/gpu.md).
//
// After layouts are settled, because axis orders decide which axes are next to each other; before the second `fuse`,
// which merges the RESHAPEs that it leaves.
#pragma once

#include "layout/core/graph.h"

namespace lowtide::layout {

void plain_forms(core::Graph& graph);

// After the last fusing, and not of models that become integers: activations (activations.cc).
void plain_activations(core::Graph& graph);

// PADs that XNNPACK copies slowly, when it is known which of them are before convolutions (pads.cc).
void plain_pads(core::Graph& graph);

// Sums of two products by constants, where their matrices are floats (joined_products.cc).
void join_products(core::Graph& graph);

// Right operands of BATCH_MATMUL that XNNPACK would transpose in another way than they are (products.cc).
void plain_products(core::Graph& graph);

// BATCH_MATMULs of a TRANSPOSE's result by itself: XNNPACK would transpose the left operand too (squares.cc).
void plain_squares(core::Graph& graph);

}  // namespace lowtide::layout
