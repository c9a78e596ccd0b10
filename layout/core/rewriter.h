// SPDX-License-Identifier: Apache-2.0
// The interface for rules that rewrite a graph op by op: the graph, the uses of values, and functions to change it. A
// rule examines one op, and either changes the graph and returns true, or leaves it as it is.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "layout/core/builder.h"
#include "layout/core/graph.h"

namespace lowtide::core {

class Rewriter {
 public:
  explicit Rewriter(Graph& target);

  Graph& graph;
  Builder b;  // set b.origin from the op that is rewritten

  Op& op(OpId id) { return graph.op(id); }
  const Value& value(ValueId id) const { return graph.at(id); }
  // Uses of a value by live ops and as graph outputs.
  int uses(ValueId id) const;
  const std::vector<OpId>& users(ValueId id) const { return users_[static_cast<size_t>(id)]; }
  // The producer of `id` when it has this kind and the value has no other use; else -1.
  OpId sole_producer(ValueId id, Kind kind) const;
  OpId producer(ValueId id) const { return id == kAbsent ? -1 : graph.at(id).producer; }
  // Whether rules may make another constant of the value: a constant of few steps. One that earlier rules gave many is
  // left as it is, as if it were computed at run time. Where it is only read, value(id).is_constant() is asked.
  bool is_foldable(ValueId id) const {
    return id != kAbsent && graph.at(id).is_constant() && graph.at(id).constant->steps <= kMostRuleSteps;
  }

  // Replaces every use of `from` by `to`, and removes the producer of `from` if it has no other use. `to` gets the ONNX
  // name of `from` if it has none. Reports say that the nodes of removed ops became part of the op that makes `to`;
  // with `into`, of that origin's op; with kNoOrigin, that they were removed.
  void replace(ValueId from, ValueId to);
  void replace(ValueId from, ValueId to, uint32_t into);
  static constexpr uint32_t kNoOrigin = 0;
  void set_input(OpId id, size_t slot, ValueId to);
  // Registers the uses of ops that were built; call it after building.
  void note_new_ops();
  // The ops since the last call whose inputs, or whose inputs' uses, have changed; in their order.
  std::vector<OpId> take_touched();

 private:
  // What a rule makes of three such constants, and what quantization then makes of it, takes less than kMaxSteps.
  static constexpr int kMostRuleSteps = stream::kMaxSteps / 8;

  void drop_if_unused(ValueId id, uint32_t into);
  std::vector<std::vector<OpId>> users_;
  std::vector<int> outputs_;  // how often a value is a graph output
  size_t noted_ = 0;
  std::vector<OpId> touched_;
};

// One rule: tries to rewrite the ops around `OpId`; true when it changed something.
using Rule = bool (*)(Rewriter&, OpId);

// Applies rules at every op until none changes anything; `rules_of` gives those that start at a kind of op.
void apply_rules(Graph& graph, const std::function<std::span<const Rule>(Kind)>& rules_of);
// The same with one rule, for ops of one kind.
void apply_rule(Graph& graph, Kind kind, Rule rule);

}  // namespace lowtide::core
