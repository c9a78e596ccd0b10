// SPDX-License-Identifier: Apache-2.0
// A proposal contains, for some ops, a change of the axis orders of their inputs and outputs; the cut then decides for
// which ops it is applied.
#pragma once

#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "layout/core/builtin.h"
#include "layout/core/orders.h"

namespace lowtide::layout {

struct Proposal {
  // By op; null: no change proposed. Many ops move alike, and share a movement.
  std::vector<const core::Movement*> moves;
  bool empty = true;

  struct Less {
    bool operator()(const core::Movement& a, const core::Movement& b) const {
      return std::tie(a.inputs, a.outputs) < std::tie(b.inputs, b.outputs);
    }
  };
  std::set<core::Movement, Less> movements;  // those that `moves` points to
};

// The start of a proposal: a base that its producer would store in the order `order`, of the pool of the orders.
struct Seed {
  ValueId base;
  const Perm* order;
  bool is_user = false;  // the producer is the user of a TRANSPOSE; else it makes what the TRANSPOSE takes
};

// Propagates seeds breadth first along ops that commute with the permutation; where two seeds meet, the first one is
// kept.
Proposal propose(Graph& graph, const Orders& orders, const std::vector<Seed>& seeds);

// All seeds that could remove a TRANSPOSE: a base stored in the order of one of its uses, or a user that uses the base
// in its stored order (expressed as the order of the user's output). Sorted by bases, then by orders.
std::vector<Seed> all_seeds(Graph& graph, const Orders& orders);

// The order in which an input of an op uses its base after the permutation `move`; nullopt when the input has to be
// lifted first.
std::optional<Perm> moved_order(const Graph& graph, ValueId base, const Perm& order, const Perm& move);

}  // namespace lowtide::layout
