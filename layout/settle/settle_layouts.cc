// SPDX-License-Identifier: Apache-2.0
// Repeated until no proposal reduces the cost: propose changes of axis orders, build the costs, solve the minimum cut,
// and rewrite the graph if its cost is lower. If one proposal covers the graph (two candidate orders per value, as in
// every convolutional network), the first cut is the minimum.
//
// The cost of a base stored in order O and used in the orders X1, X2, ...: one transpose for each distinct Xi != O.
// Every op has a label: 0 unchanged, 1 changed as proposed. O depends on the producer's label, each X on its user's. A
// term that is not submodular (two candidate orders of one value for the same use) is replaced by an upper bound, and
// the exact cost decides whether the change is applied.
#include "layout/settle/settle_layouts.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "layout/core/builder.h"
#include "layout/core/builtin.h"
#include "layout/core/cut.h"
#include "layout/core/orders.h"
#include "layout/core/rewriter.h"
#include "layout/settle/proposal.h"

namespace lowtide::layout {
namespace {

using core::kAbsent;
using core::Kind;
using core::Movement;
using core::Op;

// What a use needs of its base under a label: an order, and possibly a lifted copy (`lifted` is its cost).
struct Need {
  Perm order;
  uint64_t lifted = 0;
};

class ProposalCut {
 public:
  ProposalCut(Graph& graph, const Orders& orders, const Proposal& proposal)
      : graph_(graph), orders_(orders), proposal_(proposal), vars_(graph.ops.size(), Cut::kAlwaysZero) {}

  // The labels of least cost, by op.
  std::vector<bool> cheapest() {
    Cut cut;
    for (size_t i = 0; i < graph_.ops.size(); ++i)
      if (proposal_.moves[i]) vars_[i] = cut.add();
    for (size_t v = 0; v < graph_.values.size(); ++v) state_costs(cut, static_cast<ValueId>(v));
    std::vector<bool> by_var = cut.solve();
    std::vector<bool> labels(graph_.ops.size(), false);
    for (size_t i = 0; i < labels.size(); ++i)
      if (vars_[i] != Cut::kAlwaysZero) labels[i] = by_var[static_cast<size_t>(vars_[i])];
    return labels;
  }

  // The exact cost of labels.
  uint64_t cost(const std::vector<bool>& labels) const {
    uint64_t total = 0;
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      const auto base = static_cast<ValueId>(v);
      if (skip(base)) continue;
      const Perm stored = stored_order(base, labels);
      std::set<Perm> wanted;
      for (const Use& use : orders_.uses(base)) {
        Need need = need_of(base, use, use.op >= 0 && labels[static_cast<size_t>(use.op)]);
        total += need.lifted;
        wanted.insert(std::move(need.order));
      }
      for (const Perm& order : wanted) total += between(base, stored, order);
    }
    return total;
  }

  void apply(const std::vector<bool>& labels) {
    // Outputs first, so that their new values exist before they are used.
    std::vector<ValueId> stored(graph_.values.size());
    for (size_t v = 0; v < stored.size(); ++v) stored[v] = static_cast<ValueId>(v);
    std::vector<Perm> order(graph_.values.size());
    const size_t op_count = graph_.ops.size();
    for (size_t i = 0; i < op_count; ++i) {
      if (!labels[i]) continue;
      const Movement& movement = *proposal_.moves[i];
      for (size_t out = 0; out < graph_.ops[i].outputs.size(); ++out) {
        const ValueId id = graph_.ops[i].outputs[out];
        if (id == kAbsent || movement.outputs[out].empty()) continue;
        stored[static_cast<size_t>(id)] = moved_output(id, movement.outputs[out], static_cast<OpId>(i));
        order[static_cast<size_t>(id)] = movement.outputs[out];
      }
    }
    std::map<std::pair<ValueId, Perm>, ValueId> copies;
    auto in_order = [&](ValueId base, const Perm& wanted, uint32_t origin) {
      ValueId source = stored[static_cast<size_t>(base)];
      const Perm& now = order[static_cast<size_t>(base)];
      Perm perm = now.empty() ? wanted : stream::compose(stream::inverse(now), wanted);
      if (stream::is_identity(perm)) return source;
      auto [it, fresh] = copies.try_emplace({source, perm}, kAbsent);
      if (fresh) it->second = permuted_value(graph_, source, perm, false, origin);
      return it->second;
    };
    for (size_t i = 0; i < op_count; ++i) {
      if (orders_.is_view(static_cast<OpId>(i))) {
        const ValueId view = graph_.ops[i].outputs[0];
        core::keep_name(graph_, view, stored[static_cast<size_t>(orders_.held(view).base)]);
        graph_.ops[i].kind = Kind::kDead;
        continue;
      }
      const uint32_t origin = graph_.ops[i].origin;
      for (size_t slot = 0; slot < graph_.ops[i].inputs.size(); ++slot) {
        const ValueId in = graph_.ops[i].inputs[slot];
        if (in == kAbsent) continue;
        const Orders::Held held = orders_.held(in);
        const Perm move = labels[i] ? proposal_.moves[i]->inputs[slot] : Perm{};
        ValueId now;
        if (auto wanted = moved_order(graph_, held.base, *held.order, move)) {
          now = in_order(held.base, *wanted, origin);
        } else {
          core::Builder builder(graph_);
          builder.origin = origin;
          builder.built_for = static_cast<OpId>(i);
          const ValueId own = in_order(held.base, *held.order, origin);
          const core::Val lifted = builder.lift({own}, static_cast<int>(move.size()));
          std::optional<core::Quantization> quantization = graph_.at(own).quantization;
          if (quantization) quantization->axis += static_cast<int>(move.size()) - graph_.at(own).rank();
          graph_.at(lifted.id).quantization = std::move(quantization);
          now = permuted_value(graph_, lifted.id, move, true, origin, static_cast<OpId>(i));
        }
        graph_.ops[i].inputs[slot] = now;
      }
      if (labels[i])
        if (core::Rewrite rewrite = core::builtin(graph_.ops[i].kind).rewrite) {
          Op changed = graph_.ops[i];
          rewrite(graph_, changed, *proposal_.moves[i]);
          graph_.ops[i] = std::move(changed);
        }
    }
    for (ValueId& out : graph_.outputs) {
      const Orders::Held held = orders_.held(out);
      out = in_order(held.base, *held.order, 0);
    }
    graph_.tidy();
  }

 private:
  bool skip(ValueId base) const { return graph_.at(base).is_constant() || orders_.uses(base).empty(); }

  ValueId moved_output(ValueId id, const Perm& perm, OpId producer) {
    ValueId& slot = *std::find(graph_.op(producer).outputs.begin(), graph_.op(producer).outputs.end(), id);
    core::Value& old = graph_.at(id);
    std::optional<core::Quantization> quantization = old.quantization;
    old.producer = -1;
    ValueId made = graph_.add_value(old.dtype, stream::permuted(old.shape, perm), std::exchange(old.name, {}));
    graph_.at(made).producer = producer;
    graph_.at(made).quantization = std::move(quantization);
    if (graph_.at(made).quantization)
      graph_.at(made).quantization->axis = core::moved_axis(graph_.at(made).quantization->axis, perm);
    slot = made;
    return made;
  }

  Cut::Var producer_var(ValueId base) const {
    OpId producer = graph_.at(base).producer;
    return producer < 0 ? Cut::kAlwaysZero : vars_[static_cast<size_t>(producer)];
  }

  Perm proposed_order(ValueId base) const {
    OpId producer = graph_.at(base).producer;
    if (producer >= 0 && proposal_.moves[static_cast<size_t>(producer)]) {
      const Op& op = graph_.op(producer);
      for (size_t i = 0; i < op.outputs.size(); ++i)
        if (op.outputs[i] == base && !proposal_.moves[static_cast<size_t>(producer)]->outputs[i].empty())
          return proposal_.moves[static_cast<size_t>(producer)]->outputs[i];
    }
    return stream::identity_perm(graph_.at(base).rank());
  }
  Perm stored_order(ValueId base, const std::vector<bool>& labels) const {
    OpId producer = graph_.at(base).producer;
    return producer >= 0 && labels[static_cast<size_t>(producer)] ? proposed_order(base)
                                                                  : stream::identity_perm(graph_.at(base).rank());
  }

  Need need_of(ValueId base, const Use& use, bool moved) const {
    if (!moved) return {*use.order};
    const Perm& move = proposal_.moves[static_cast<size_t>(use.op)]->inputs[use.slot];
    if (auto order = moved_order(graph_, base, *use.order, move)) return {*order};
    core::Shape lifted(move.size() - use.order->size(), 1);
    core::Shape own = stream::permuted(graph_.at(base).shape, *use.order);
    lifted.insert(lifted.end(), own.begin(), own.end());
    uint64_t price =
        stream::moves_no_bytes(lifted, move) ? 1 : transpose_cost(graph_, base, reversed(graph_.at(base).rank()));
    return {*use.order, price};
  }
  // Some permutation that moves bytes, to get its cost.
  static Perm reversed(int rank) {
    Perm perm = stream::identity_perm(rank);
    std::reverse(perm.begin(), perm.end());
    return perm;
  }

  uint64_t between(ValueId base, const Perm& stored, const Perm& wanted) const {
    if (stored == wanted) return 0;
    // transpose_cost() takes the base in its own order; whether bytes move depends on the stored shape.
    core::Shape shape = stream::permuted(graph_.at(base).shape, stored);
    Perm perm = stream::compose(stream::inverse(stored), wanted);
    if (stream::moves_no_bytes(shape, perm)) return 1;
    return transpose_cost(graph_, base, reversed_or(perm, base));
  }
  // transpose_cost() uses the base's own shape: pass a permutation that moves bytes for that shape too.
  Perm reversed_or(const Perm& perm, ValueId base) const {
    return stream::moves_no_bytes(graph_.at(base).shape, perm) ? reversed(graph_.at(base).rank()) : perm;
  }

  void state_costs(Cut& cut, ValueId base) {
    if (skip(base)) return;
    const Cut::Var producer = producer_var(base);
    const Perm identity = stream::identity_perm(graph_.at(base).rank());
    const Perm proposed = proposed_order(base);
    struct Users {
      std::vector<Cut::Var> at_zero, at_one;
      bool always = false;
    };
    std::map<Perm, Users> by_order;
    for (const Use& use : orders_.uses(base)) {
      const Cut::Var user = use.op < 0 ? Cut::kAlwaysZero : vars_[static_cast<size_t>(use.op)];
      const Need zero = need_of(base, use, false);
      if (user == Cut::kAlwaysZero) {
        by_order[zero.order].always = true;
        continue;
      }
      const Need one = need_of(base, use, true);
      if (one.lifted) cut.pay_if_one(user, one.lifted);
      if (one.order == zero.order) {
        by_order[zero.order].always = true;
      } else {
        by_order[zero.order].at_zero.push_back(user);
        by_order[one.order].at_one.push_back(user);
      }
    }
    for (const auto& [order, users] : by_order) {
      const uint64_t from_zero = between(base, identity, order);
      const uint64_t from_one = producer == Cut::kAlwaysZero ? from_zero : between(base, proposed, order);
      if (users.always) {
        cut.pay_if_zero(producer, producer == Cut::kAlwaysZero ? 0 : from_zero);
        cut.pay_if_one(producer, producer == Cut::kAlwaysZero ? 0 : from_one);
        continue;
      }
      // The part of the cost that is independent of the producer's label, and the rest.
      const uint64_t both = std::min(from_zero, from_one);
      cut.pay_if_any_zero(users.at_zero, both);
      cut.pay_if_any_one(users.at_one, both);
      if (from_zero > both) {
        cut.pay_if_zero_and_any_one(producer, users.at_one, from_zero - both);
        cut.pay_if_any_zero(users.at_zero, from_zero - both);  // an upper bound: not submodular with the producer
      }
      if (from_one > both) {
        cut.pay_if_one_and_any_zero(producer, users.at_zero, from_one - both);
        cut.pay_if_any_one(users.at_one, from_one - both);  // likewise
      }
    }
  }

  Graph& graph_;
  const Orders& orders_;
  const Proposal& proposal_;
  std::vector<Cut::Var> vars_;
};

// Applies the best labels if they reduce the cost, which is `now`. `orders` are the graph's.
bool improve(Graph& graph, const Orders& orders, const std::vector<Seed>& seeds, uint64_t now) {
  Proposal proposal = propose(graph, orders, seeds);
  if (proposal.empty) return false;
  ProposalCut cut(graph, orders, proposal);
  std::vector<bool> labels = cut.cheapest();
  if (cut.cost(labels) >= now) return false;
  cut.apply(labels);
  return true;
}

// If all seeds together do not help, tries those of each permutation: they rarely contradict each other. Then those of
// the ops before the TRANSPOSEs, and of those behind them, alone: where both an op and its user could take a TRANSPOSE
// over, and only one of them may, the cut sees an upper bound.
bool improve_by_permutation(Graph& graph, uint64_t now) {
  const Orders orders(graph);
  const std::vector<Seed> seeds = all_seeds(graph, orders);
  if (improve(graph, orders, seeds, now)) return true;
  std::map<Perm, std::vector<Seed>> by_permutation;
  for (const Seed& seed : seeds) by_permutation[*seed.order].push_back(seed);
  if (by_permutation.size() > 1)
    for (const auto& [perm, same_order] : by_permutation)
      if (improve(graph, orders, same_order, now)) return true;
  const auto is_user = [](const Seed& seed) { return seed.is_user; };
  std::vector<Seed> of_users, of_makers;
  std::copy_if(seeds.begin(), seeds.end(), std::back_inserter(of_users), is_user);
  std::remove_copy_if(seeds.begin(), seeds.end(), std::back_inserter(of_makers), is_user);
  if (of_users.empty() || of_makers.empty()) return false;
  return improve(graph, orders, of_users, now) || improve(graph, orders, of_makers, now);
}

uint64_t cost_as_it_is(Graph& graph) {
  const Orders orders(graph);
  const Proposal none{.moves = std::vector<const Movement*>(graph.ops.size(), nullptr), .movements = {}};
  return ProposalCut(graph, orders, none).cost(std::vector<bool>(graph.ops.size(), false));
}

// Replaces TRANSPOSEs that move no bytes by RESHAPEs.
void reshape_instead(Graph& graph) {
  const Orders orders(graph);
  const size_t op_count = graph.ops.size();
  std::vector<ValueId> instead(graph.values.size(), kAbsent);  // by output of a TRANSPOSE: its replacement
  auto current = [&](ValueId id) {
    const bool replaced = id >= 0 && static_cast<size_t>(id) < instead.size() && instead[static_cast<size_t>(id)] >= 0;
    return replaced ? instead[static_cast<size_t>(id)] : id;
  };
  for (size_t i = 0; i < op_count; ++i) {
    if (!orders.is_view(static_cast<OpId>(i))) continue;
    const Op op = graph.ops[i];
    auto perm = graph.ints(op.inputs[1]);
    if (!stream::moves_no_bytes(graph.at(op.inputs[0]).shape, Perm(perm->begin(), perm->end()))) continue;
    instead[static_cast<size_t>(op.outputs[0])] = permuted_value(
        graph, current(op.inputs[0]), Perm(perm->begin(), perm->end()), true, op.origin, static_cast<OpId>(i));
    graph.ops[i].kind = Kind::kDead;
  }
  for (Op& op : graph.ops)
    for (ValueId& in : op.inputs) in = current(in);
  for (ValueId& out : graph.outputs) out = current(out);
  graph.tidy();
}

}  // namespace

void settle_layouts(Graph& graph) {
  // The cost is recomputed after each change: a change that was estimated too low must not be undone and repeated
  // forever.
  uint64_t now = cost_as_it_is(graph);
  while (improve_by_permutation(graph, now)) {
    const uint64_t before = std::exchange(now, cost_as_it_is(graph));
    if (now >= before) break;
  }
  reshape_instead(graph);
}

}  // namespace lowtide::layout
