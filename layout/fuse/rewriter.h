// SPDX-License-Identifier: Apache-2.0
// The interface for fusion rules: the graph, the uses of values, and functions to change it. A rule examines one op,
// and either changes the graph and returns true, or leaves it as it is.
#pragma once

#include <vector>

#include "layout/core/builder.h"
#include "layout/core/graph.h"

namespace lowtide::layout {

using core::Graph;
using core::Kind;
using core::Op;
using core::OpId;
using core::Val;
using core::ValueId;

class Rewriter {
 public:
  explicit Rewriter(Graph& target);

  Graph& graph;
  core::Builder b;  // set b.origin from the op that is rewritten

  Op& op(OpId id) { return graph.ops[static_cast<size_t>(id)]; }
  const core::Value& value(ValueId id) const { return graph.at(id); }
  // Uses of a value by live ops and as graph outputs.
  int uses(ValueId id) const;
  const std::vector<OpId>& users(ValueId id) const { return users_[static_cast<size_t>(id)]; }
  // The producer of `id` when it has this kind and the value has no other use; else -1.
  OpId sole_producer(ValueId id, Kind kind) const;
  OpId producer(ValueId id) const { return id == core::kAbsent ? -1 : graph.at(id).producer; }
  bool is_constant(ValueId id) const { return id != core::kAbsent && graph.at(id).is_constant(); }

  // Replaces every use of `from` by `to`, and removes the producer of `from` if it has no other use. `to` gets the ONNX
  // name of `from` if it has none. Reports say that the nodes of removed ops became part of the op that makes `to`;
  // with `into`, of that origin's op; with kNoOrigin, that they were removed.
  void replace(ValueId from, ValueId to);
  void replace(ValueId from, ValueId to, uint32_t into);
  static constexpr uint32_t kNoOrigin = 0;
  void set_input(OpId id, size_t slot, ValueId to);
  // Registers the uses of ops that were built; call it after building.
  void note_new_ops();

 private:
  void drop_if_unused(ValueId id, uint32_t into);
  std::vector<std::vector<OpId>> users_;
  std::vector<int> outputs_;  // how often a value is a graph output
  size_t noted_ = 0;
};

// One rule: tries to rewrite the ops around `OpId`; true when it changed something.
using Rule = bool (*)(Rewriter&, OpId);

// A rule and the kind of op at which it starts.
struct FuseRule {
  Kind kind;
  Rule rule;
};

}  // namespace lowtide::layout
