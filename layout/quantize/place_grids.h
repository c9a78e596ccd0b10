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
#include <set>
#include <string>
#include <vector>

#include "layout/quantize/calibrated.h"
#include "stream/progress.h"

namespace lowtide::layout {

// What is to be known after integer kernels are chosen.
struct PlacedGrids {
  // Why ops were left in floats, by their first results.
  std::map<ValueId, std::string> reasons;
  // Floats that are so far from a grid that QUANTIZE would be wrong in some kernels.
  std::set<ValueId> far;
  // Notes for the user.
  std::vector<std::string> notes;
  // The floats of constants that were made integers, by their recipes.
  std::map<const stream::Recipe*, stream::RecipeRef> floats;
  // The first results of ops that integer kernels or tables are to compute.
  std::vector<ValueId> computing;
};

// Ops that integer kernels refuse, by their first results, with the reasons.
using RefusedOps = std::map<ValueId, std::string>;

// Weights are read here up to three times: to equalize them, for their largest magnitudes, and to correct biases.
// Throws Error(kMalformed) with the name of a tensor that calibration did not see, Error(kUsage) for a pattern of
// keep_float that matches nothing and for a model that is quantized already.
// `refused` stay in floats. The grids of the model's own inputs and outputs beside them remain where outputs must be
// integers.
PlacedGrids place_grids(core::Graph& graph, Calibrated calibrated, stream::Progress* progress, bool tables = false,
                        const RefusedOps& refused = {});

// After quantize(): puts a MAXIMUM and a MINIMUM with the ends of the grid before each QUANTIZE of such floats.
void limit_far(core::Graph& graph, const PlacedGrids& placed);

// After quantize(): ops that are in floats nevertheless read their floats again.
void restore_floats(core::Graph& graph, const PlacedGrids& placed);

}  // namespace lowtide::layout
