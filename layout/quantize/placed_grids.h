// SPDX-License-Identifier: Apache-2.0
// What place_grids() did, and what of it is put right when integer kernels are chosen.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "layout/quantize/grid.h"

namespace lowtide::layout {

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

// After quantize(): puts a MAXIMUM and a MINIMUM with the ends of the grid before each QUANTIZE of such floats.
void limit_far(core::Graph& graph, const PlacedGrids& placed);

// After quantize(): ops that are in floats nevertheless read their floats again.
void restore_floats(core::Graph& graph, const PlacedGrids& placed);

}  // namespace lowtide::layout
