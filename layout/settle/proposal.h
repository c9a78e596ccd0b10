// SPDX-License-Identifier: Apache-2.0
// A proposal says for some of the ops how each would move; the cut then decides which of them do.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "layout/core/orders.h"
#include "layout/core/traits.h"

namespace lowtide::layout {

struct Proposal {
  std::vector<std::optional<core::Movement>> moves;  // by op; nullopt: it stays
  bool empty = true;
};

// Where a proposal starts: a base that would be stored permuted (by its producer).
struct Seed {
  ValueId base;
  Perm order;
  auto operator<=>(const Seed&) const = default;
};

// Spreads seeds along the ops that can follow, breadth first; where two seeds meet, the first to arrive stays.
Proposal propose(Graph& graph, const Orders& orders, const std::vector<Seed>& seeds);

// Every seed that could make some TRANSPOSE vanish: the base stored as one of its uses wants it, or a use that takes
// the base as it is (said as the order of what that op makes).
std::vector<Seed> all_seeds(Graph& graph, const Orders& orders);

// The order in which input `slot` of a moved op sees its base, or nullopt when the input has to be lifted first.
std::optional<Perm> moved_order(const Graph& graph, ValueId base, const Perm& order, const Perm& move);

}  // namespace lowtide::layout
