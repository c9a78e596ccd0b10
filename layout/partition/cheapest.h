// SPDX-License-Identifier: Apache-2.0
// The division with the lowest cost: the work of each unit in its runtime, a fixed cost for each piece after the first,
// and the bytes of each value for each border between pieces that it crosses.
//
// For a number of pieces and a first runtime the labels are a minimum cut (layout/core/cut.h): a variable for each unit
// and border, 1 behind the border.
#pragma once

#include <cstddef>
#include <cstdint>

#include "layout/partition/unit_graph.h"

namespace lowtide::layout {

struct DivisionCosts {
  uint64_t per_switch = 0;  // in the unit of time of Unit::work
  uint64_t per_byte = 0;
};

// What a division costs. kCannotRun when a unit is in a runtime that cannot run it.
uint64_t cost_of(const UnitGraph& graph, const Division& division, const DivisionCosts& costs);

// The cheapest of all divisions within the limits; without pieces where none can be, because units cannot run in ONNX.
// All costs together must stay below 2^50.
Division cheapest_division(const UnitGraph& graph, const DivisionCosts& costs, const PieceLimits& limits);

}  // namespace lowtide::layout
