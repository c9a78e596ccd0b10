// SPDX-License-Identifier: Apache-2.0
// The division with the fewest pieces when each unit that the target can run is run there, with a proof.
//
// For a first runtime, taking every unit that is ready in it, then every one in the other, and so on, gives the fewest:
// after each piece no other order has done more. So both first runtimes are tried, and of two divisions with as many
// pieces the one with fewer in the target is taken: no division has fewer there.
//
// The proof: along a path of the graph each change of runtime begins a new piece. So a path with c changes needs c + 1
// pieces, and two paths with c changes that begin in different runtimes need c + 2.
#pragma once

#include <vector>

#include "layout/partition/unit_graph.h"

namespace lowtide::layout {

struct FewestPieces {
  Division division;
  std::vector<std::vector<size_t>> paths;  // one, or two that begin in different runtimes; none without units
};

FewestPieces fewest_pieces(const UnitGraph& graph);

}  // namespace lowtide::layout
