// SPDX-License-Identifier: Apache-2.0
// Puts QUANTIZE and DEQUANTIZE on the values of a graph of floats, on grids that calibration found, and makes its
// weights integers. So it becomes a quantized model as others are, and quantize.h draws it into integer kernels.
//
//     x -- CONV_2D(W) -- y      ->      x -- Q - DQ -- CONV_2D(DQ(Q(W))) -- Q - DQ -- y
//
// Tensors of ops that need one scale (CONCATENATION, MAX_POOL_2D, RESHAPE, ...) get one grid, over all their ranges.
// What no integer kernel computes stays float, and so do values between two such ops. With `tables`, functions of one
// number beside ops in integers get grids too (tables.h).
#pragma once

#include <map>
#include <string>

#include "layout/quantize/calibrated.h"
#include "layout/quantize/placed_grids.h"
#include "stream/progress.h"

namespace lowtide::layout {

// Ops that integer kernels refuse, by their first results, with the reasons.
using RefusedOps = std::map<ValueId, std::string>;

// Weights are read here up to three times: to equalize them, for their largest magnitudes, and to correct biases.
// Throws Error(kMalformed) with the name of a tensor that calibration did not see, Error(kUsage) for a pattern of
// keep_float that matches nothing and for a model that is quantized already.
// `refused` stay in floats. The grids of the model's own inputs and outputs beside them remain where outputs must be
// integers.
PlacedGrids place_grids(core::Graph& graph, Calibrated calibrated, stream::Progress* progress, bool tables = false,
                        const RefusedOps& refused = {});

}  // namespace lowtide::layout
