// SPDX-License-Identifier: Apache-2.0
#include "layout/settle/proposal.h"

#include <algorithm>
#include <deque>
#include <set>
#include <utility>

namespace lowtide::layout {
namespace {

using core::Movement;
using core::Op;
using core::OpView;
using core::Slot;

std::optional<Movement> movement_of(Graph& graph, const Op& op, Slot slot, const Perm& perm) {
  const core::Commute commute = core::builtin(op.kind).commute;
  if (commute == core::kFixed) return std::nullopt;
  OpView view{graph, op.kind, op.inputs, op.options, static_cast<int>(op.outputs.size())};
  return commute(view, op.outputs, slot, perm);
}

class Propagation {
 public:
  Propagation(Graph& graph, const Orders& orders)
      : graph_(graph), orders_(orders), seen_(graph.values.size(), nullptr) {
    proposal_.moves.resize(graph.ops.size(), nullptr);
  }

  void store(ValueId base, const Perm& order) {
    if (!stream::is_identity(order)) take(base, orders_.perms().held(order));
  }
  // Queues the change of all users to this order of the base, an order of the pool.
  void take(ValueId base, const Perm& order) {
    const Perm*& seen = seen_[static_cast<size_t>(base)];
    if (seen == &order) return;
    if (seen && !seen_too_.insert({base, &order}).second) return;
    if (!seen) seen = &order;
    queue_.push_back({base, &order});
  }

  // Proposes that the op's slot is permuted by `perm`, and queues the consequences.
  void move(OpId id, Slot slot, const Perm& perm) {
    if (id < 0 || orders_.is_view(id) || stream::is_identity(perm)) return;
    const Movement*& entry = proposal_.moves[static_cast<size_t>(id)];
    if (entry) return;
    const Op& op = graph_.op(id);
    std::optional<Movement> movement = movement_of(graph_, op, slot, perm);
    if (!movement) return;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (op.inputs[i] == core::kAbsent || movement->inputs[i].empty()) continue;
      const Orders::Held& seen = orders_.held(op.inputs[i]);
      if (graph_.at(seen.base).is_constant()) continue;
      if (auto order = moved_order(graph_, seen.base, *seen.order, movement->inputs[i])) store(seen.base, *order);
    }
    for (size_t i = 0; i < op.outputs.size(); ++i)
      if (!movement->outputs[i].empty()) store(op.outputs[i], movement->outputs[i]);
    entry = &*proposal_.movements.insert(*std::move(movement)).first;
    proposal_.empty = false;
  }

  Proposal run() {
    while (!queue_.empty()) {
      const ValueId base = queue_.front().base;
      const Perm* order = queue_.front().order;
      queue_.pop_front();
      if (OpId producer = graph_.at(base).producer; producer >= 0) {
        const Op& op = graph_.op(producer);
        for (size_t i = 0; i < op.outputs.size(); ++i)
          if (op.outputs[i] == base) move(producer, {true, i}, *order);
      }
      for (const Use& use : orders_.uses(base))
        if (use.op >= 0) move(use.op, {false, use.slot}, stream::compose(stream::inverse(*use.order), *order));
    }
    return std::move(proposal_);
  }

 private:
  Graph& graph_;
  const Orders& orders_;
  Proposal proposal_;
  std::deque<Seed> queue_;
  // By base: the first order that was queued. Few have another.
  std::vector<const Perm*> seen_;
  std::set<std::pair<ValueId, const Perm*>> seen_too_;
};

}  // namespace

std::optional<Perm> moved_order(const Graph& graph, ValueId base, const Perm& order, const Perm& move) {
  if (move.empty()) return order;
  if (move.size() != static_cast<size_t>(graph.at(base).rank())) return std::nullopt;
  return stream::compose(order, move);
}

Proposal propose(Graph& graph, const Orders& orders, const std::vector<Seed>& seeds) {
  Propagation propagation(graph, orders);
  for (const Seed& seed : seeds) propagation.take(seed.base, *seed.order);
  return propagation.run();
}

std::vector<Seed> all_seeds(Graph& graph, const Orders& orders) {
  std::vector<Seed> seeds;
  // Of ops whose inputs all move alike: a CONCATENATION may have thousands, each of which would give the same.
  std::set<std::pair<OpId, Perm>> known;
  auto add = [&](ValueId base, const Perm& order, bool is_user) {
    seeds.push_back({base, &orders.perms().held(order), is_user});
  };
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const auto base = static_cast<ValueId>(v);
    if (graph.at(base).is_constant()) continue;
    for (const Use& use : orders.uses(base)) {
      if (stream::is_identity(*use.order)) continue;
      add(base, *use.order, false);
      if (use.op < 0) continue;
      // The user uses the base as it is stored: its output is then permuted, or, if the permuted axes are reduced,
      // unchanged.
      const Op& op = graph.op(use.op);
      const Perm move = stream::inverse(*use.order);
      if (core::builtin(op.kind).commute == core::follow_all && !known.insert({use.op, move}).second) continue;
      const auto movement = movement_of(graph, op, {false, use.slot}, move);
      if (!movement) continue;
      bool moved = false;
      for (size_t i = 0; i < op.outputs.size(); ++i) {
        if (movement->outputs[i].empty() || stream::is_identity(movement->outputs[i])) continue;
        add(op.outputs[i], movement->outputs[i], true);
        moved = true;
      }
      if (!moved) add(base, stream::identity_perm(graph.at(base).rank()), true);
    }
  }
  std::sort(seeds.begin(), seeds.end(), [](const Seed& a, const Seed& b) {
    return std::tie(a.base, *a.order, a.is_user) < std::tie(b.base, *b.order, b.is_user);
  });
  const auto same = [](const Seed& a, const Seed& b) {
    return a.base == b.base && a.order == b.order && a.is_user == b.is_user;
  };
  seeds.erase(std::unique(seeds.begin(), seeds.end(), same), seeds.end());
  return seeds;
}

}  // namespace lowtide::layout
