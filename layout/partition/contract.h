// SPDX-License-Identifier: Apache-2.0
// Units from nodes: what must stay together becomes one vertex.
//
// The trap: two nodes that stay together force every node on a path between them into the same unit, because a unit
// runs as a whole.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace lowtide::layout {

struct Contraction {
  std::vector<size_t> unit;  // of each node; units are numbered in an order in which they can run
  size_t units = 0;
};

// `edges`: (producer, user), acyclic. `together`: pairs of nodes of one unit. The units are the smallest possible ones.
Contraction contract(size_t nodes, const std::vector<std::pair<size_t, size_t>>& edges,
                     const std::vector<std::pair<size_t, size_t>>& together);

}  // namespace lowtide::layout
