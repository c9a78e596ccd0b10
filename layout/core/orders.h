// SPDX-License-Identifier: Apache-2.0
// Axis orders of values. A graph with TRANSPOSE ops is seen as one without: every value that some other op makes (a
// "base") is used in certain orders, and the TRANSPOSE ops are the cost of having it in those orders.
//
//     base b --TRANSPOSE p--> y --> op i        becomes        op i uses b in the order p
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "layout/core/graph.h"

namespace lowtide::layout {

using core::Graph;
using core::OpId;
using core::Perm;
using core::ValueId;

struct Use {
  OpId op = -1;     // -1: a graph output
  size_t slot = 0;  // input of the op, or index of the graph output
  Perm order;       // the base permuted by this is what the slot sees
};

class Orders {
 public:
  explicit Orders(Graph& graph);

  // What a value is: its base, and the permutation of the base that it holds.
  struct Held {
    ValueId base;
    Perm order;
  };
  const Held& held(ValueId id) const { return held_[static_cast<size_t>(id)]; }
  // All uses of a base by ops other than TRANSPOSE and by graph outputs.
  const std::vector<Use>& uses(ValueId base) const { return uses_[static_cast<size_t>(base)]; }
  bool is_view(OpId op) const { return views_[static_cast<size_t>(op)]; }  // a TRANSPOSE with a constant permutation

 private:
  std::vector<Held> held_;
  std::vector<std::vector<Use>> uses_;
  std::vector<bool> views_;
};

// Bytes that a transpose of this shape moves at run time, plus a little for being an op at all; symbolic dims count
// with a nominal extent. A permutation that moves no bytes (a RESHAPE) costs almost nothing.
uint64_t transpose_cost(const Graph& graph, ValueId value, const Perm& perm);

// The value permuted by `perm`: the value itself, a permuted constant, or a new TRANSPOSE op (a RESHAPE where no byte
// moves and `reshape_allowed`).
ValueId permuted_value(Graph& graph, ValueId value, const Perm& perm, bool reshape_allowed, uint32_t origin);

}  // namespace lowtide::layout
