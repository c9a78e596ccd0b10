// SPDX-License-Identifier: Apache-2.0
// Ranges of values that calibration cannot observe, because the conversion makes them: those that lowering puts between
// the values of a node (the sum a + b of Sum(a, b, c), alpha * x of HardSigmoid, the product of a BatchNormalization),
// and multiples of values, whose factors fusing moves into weights.
//
// They follow from the ranges of values that calibration observed. Only where an integer kernel could use them: between
// values in integers. Where the intervals say too little, the value has no range, and stays in floats.
#pragma once

#include "layout/quantize/calibrated.h"

namespace lowtide::layout {

// Behind lowering, while all values of the nodes are there: gives names to what lowering made and has a range, and
// adds their ranges. From now on passes keep ranges (core/kept_ranges.h).
void keep_ranges(core::Graph& graph, Calibrated& calibrated);

// When no pass multiplies values any more: adds the ranges of multiples.
void add_ranges_of_multiples(const core::Graph& graph, Calibrated& calibrated);

// When ranges have been used: takes the names away that are not ONNX's. The writer names these values by their ops.
void forget_made_names(core::Graph& graph);

}  // namespace lowtide::layout
