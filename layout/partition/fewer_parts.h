// SPDX-License-Identifier: Apache-2.0
// A cheap division of a graph that is too large for minimum cuts: parts of the target whose work is worth less than the
// borders that they cause go to ONNX, one after the other.
#pragma once

#include <cstddef>

#include "layout/partition/cheapest.h"
#include "layout/partition/unit_graph.h"

namespace lowtide::layout {

// Never dearer than the division with the fewest pieces, where the limits allow that one, nor than all of it in
// ONNX. Within the limits.
Division division_of_fewer_parts(const UnitGraph& graph, const DivisionCosts& costs, const PieceLimits& limits);

}  // namespace lowtide::layout
