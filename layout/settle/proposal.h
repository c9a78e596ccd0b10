// SPDX-License-Identifier: Apache-2.0
// A proposal contains, for some ops, a change of the axis orders of their inputs and outputs; the cut then decides for
// which ops it is applied.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "layout/core/builtin.h"
#include "layout/core/orders.h"

namespace lowtide::layout {

struct Proposal {
  std::vector<std::optional<core::Movement>> moves;  // by op; nullopt: no change proposed
  bool empty = true;
};

// The start of a proposal: a base that its producer would store in the order `order`.
struct Seed {
  ValueId base;
  Perm order;
  auto operator<=>(const Seed&) const = default;
};

// Propagates seeds breadth first along ops that commute with the permutation; where two seeds meet, the first one is
// kept.
Proposal propose(Graph& graph, const Orders& orders, const std::vector<Seed>& seeds);

// All seeds that could remove a TRANSPOSE: a base stored in the order of one of its uses, or a user that uses the base
// in its stored order (expressed as the order of the user's output).
std::vector<Seed> all_seeds(Graph& graph, const Orders& orders);

// The order in which an input of an op uses its base after the permutation `move`; nullopt when the input has to be
// lifted first.
std::optional<Perm> moved_order(const Graph& graph, ValueId base, const Perm& order, const Perm& move);

}  // namespace lowtide::layout
