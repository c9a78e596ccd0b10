// SPDX-License-Identifier: Apache-2.0
// Axis orders of values. A graph with TRANSPOSE ops is seen as one without: every value that some other op makes (a
// "base") is used in certain orders, and the TRANSPOSE ops are the cost of having it in those orders.
//
//     base b --TRANSPOSE p--> y --> op i        becomes        op i uses b in the order p
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "layout/core/graph.h"

namespace lowtide::layout {

using core::Graph;
using core::OpId;
using core::Perm;
using core::ValueId;

// Permutations, each held once: a graph has as many as it has values, and few that differ. Equal ones have one address.
class PermPool {
 public:
  const Perm& held(const Perm& perm) { return *perms_.insert(perm).first; }

 private:
  std::set<Perm> perms_;
};

struct Use {
  OpId op = -1;                 // -1: a graph output
  uint32_t slot = 0;            // input of the op, or index of the graph output
  const Perm* order = nullptr;  // the base permuted by this is what the slot sees
};

class Orders {
 public:
  explicit Orders(Graph& graph);
  // Lives as long as these orders. Others may put their permutations there too.
  PermPool& perms() const { return *perms_; }

  // What a value is: its base, and the permutation of the base that it holds.
  struct Held {
    ValueId base;
    const Perm* order;
  };
  const Held& held(ValueId id) const { return held_[static_cast<size_t>(id)]; }
  // All uses of a base by ops other than TRANSPOSE and by graph outputs.
  std::span<const Use> uses(ValueId base) const {
    const auto v = static_cast<size_t>(base);
    return std::span(uses_).subspan(first_[v], first_[v + 1] - first_[v]);
  }
  bool is_view(OpId op) const { return views_[static_cast<size_t>(op)]; }  // a TRANSPOSE with a constant permutation

 private:
  std::unique_ptr<PermPool> perms_;
  std::vector<Held> held_;
  std::vector<Use> uses_;        // of all values, one after the other
  std::vector<uint32_t> first_;  // by value: where its uses begin
  std::vector<bool> views_;
};

// Bytes that a transpose of this shape moves at run time, plus a little for being an op at all; symbolic dims count
// with a nominal extent. A permutation that moves no bytes (a RESHAPE) costs almost nothing.
uint64_t transpose_cost(const Graph& graph, ValueId value, const Perm& perm);

// The scales of a value that is permuted: those of an axis move with it.
std::optional<core::Quantization> permuted_scales(std::optional<core::Quantization> scales, const Perm& perm);

// The value permuted by `perm`: the value itself, a permuted constant, or a new TRANSPOSE op (a RESHAPE where no byte
// moves and `reshape_allowed`). A RESHAPE may have to compute extents; it does not need the results of `built_for`.
ValueId permuted_value(Graph& graph, ValueId value, const Perm& perm, bool reshape_allowed, uint32_t origin,
                       OpId built_for = -1);

}  // namespace lowtide::layout
