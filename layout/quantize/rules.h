// SPDX-License-Identifier: Apache-2.0
// The rules of the pass, one file each.
#pragma once

#include <string>

#include "layout/quantize/grid.h"

namespace lowtide::layout {

// ---- conversions.cc: QUANTIZE, DEQUANTIZE and BITCAST that meet ----

bool join_quantize(Rewriter& rewriter, OpId id);
bool join_dequantize(Rewriter& rewriter, OpId id);
bool join_bitcast(Rewriter& rewriter, OpId id);

// ---- chosen.cc: ops whose result has elements of their data ----

// choose(DEQUANTIZE(q)) -> DEQUANTIZE(choose(q))
bool choose_integers(Rewriter& rewriter, OpId id);
// choose(BITCAST(q)) -> BITCAST(choose(q)), where BITCAST drops the grid: ONNX moves plain integers
bool choose_plain_integers(Rewriter& rewriter, OpId id);
// QUANTIZE(choose(x)) -> choose(QUANTIZE(x)); called at the QUANTIZE
bool quantize_before_choice(Rewriter& rewriter, OpId id);
// BITCAST(choose(x)) -> choose(BITCAST(x)), where BITCAST adds a grid and x is plain integers; called at the BITCAST.
// An input of the model then has the grid itself.
bool regrid_before_choice(Rewriter& rewriter, OpId id);

// ---- limit_to_one.cc: Clip to 0 and 1; called at the QUANTIZE ----

// Where x is dequantized.
bool limit_integers_to_one(Rewriter& rewriter, OpId id);
// Also where an integer kernel may give x.
bool limit_to_one_in_integers(Rewriter& rewriter, OpId id);

// ---- compute.cc: ops that compute ----

// QUANTIZE(op(DEQUANTIZE(q), ...)) -> op(q, ...); called at the QUANTIZE
bool compute_in_integers(Rewriter& rewriter, OpId id);
// Why the op `id` stays float although its data comes from integers; empty when it is not such an op.
std::string reason_for_floats(Rewriter& rewriter, OpId id);

}  // namespace lowtide::layout
