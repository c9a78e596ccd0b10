// SPDX-License-Identifier: Apache-2.0
// Functions of integers of 8 bits as tables: there are 256 of them.
//
//     q -- DEQUANTIZE -- LOGISTIC -- QUANTIZE -- r      ->      q -- CAST(i32) -- GATHER(table i8[256]) -- r
//
// The table's elements are what ONNX Runtime computes for each integer: each op in f32, then rounded half to even and
// saturated. So the result is the same, to the last step, whatever scales the model has, and no float is computed. On a
// processor GATHER takes longer than vector code for floats; docs/decisions/tables.md has the figures.
#pragma once

#include "layout/quantize/grid.h"

namespace lowtide::layout {

// Both: QUANTIZE(f(DEQUANTIZE(q))) -> a table; called at the QUANTIZE. The first one where f has an op without an
// integer kernel, or several ops that compute with floats between them: before the rules that find kernels, which would
// take f apart. The second one is for what those rules left.
bool function_without_kernel_by_table(Rewriter& rewriter, OpId id);
bool function_by_table(Rewriter& rewriter, OpId id);

// Whether the op is the GATHER that such a table ends in.
bool is_table(const Graph& graph, const Op& op);

}  // namespace lowtide::layout
