// SPDX-License-Identifier: Apache-2.0
#include "layout/core/rewriter.h"

#include <algorithm>
#include <utility>

namespace lowtide::core {

Rewriter::Rewriter(Graph& target) : graph(target), b(target) { note_new_ops(); }

void Rewriter::note_new_ops() {
  users_.resize(graph.values.size());
  if (noted_ == 0) {
    outputs_.assign(graph.values.size(), 0);
    for (ValueId out : graph.outputs) ++outputs_[static_cast<size_t>(out)];
  }
  outputs_.resize(graph.values.size(), 0);
  for (; noted_ < graph.ops.size(); ++noted_) {
    const Op& op = graph.ops[noted_];
    if (op.kind == Kind::kDead) continue;
    for (ValueId in : op.inputs)
      if (in != kAbsent) users_[static_cast<size_t>(in)].push_back(static_cast<OpId>(noted_));
    for (ValueId out : op.outputs)
      if (out != kAbsent) graph.at(out).producer = static_cast<OpId>(noted_);
  }
}

int Rewriter::uses(ValueId id) const {
  return static_cast<int>(users_[static_cast<size_t>(id)].size()) + outputs_[static_cast<size_t>(id)];
}

OpId Rewriter::sole_producer(ValueId id, Kind kind) const {
  OpId producer_op = producer(id);
  if (producer_op < 0 || graph.op(producer_op).kind != kind || uses(id) != 1) return -1;
  return producer_op;
}

void Rewriter::set_input(OpId id, size_t slot, ValueId to) {
  ValueId& in = op(id).inputs[slot];
  const ValueId from = in;
  if (from == to) return;
  in = to;
  touched_.push_back(id);
  if (to != kAbsent) users_[static_cast<size_t>(to)].push_back(id);
  if (from == kAbsent) return;
  std::vector<OpId>& list = users_[static_cast<size_t>(from)];
  list.erase(std::find(list.begin(), list.end(), id));
  drop_if_unused(from, op(id).origin);
}

void Rewriter::replace(ValueId from, ValueId to) {
  const OpId made_by = producer(to);
  replace(from, to, made_by < 0 ? kNoOrigin : op(made_by).origin);
}

void Rewriter::replace(ValueId from, ValueId to, uint32_t into) {
  if (from == to) return;
  const std::vector<OpId> list = std::move(users_[static_cast<size_t>(from)]);
  users_[static_cast<size_t>(from)].clear();
  for (OpId user : list) {
    std::vector<ValueId>& inputs = op(user).inputs;
    // A user that is listed twice is visited twice: one slot each time.
    *std::find(inputs.begin(), inputs.end(), from) = to;
    users_[static_cast<size_t>(to)].push_back(user);
    touched_.push_back(user);
  }
  std::replace(graph.outputs.begin(), graph.outputs.end(), from, to);
  outputs_[static_cast<size_t>(to)] += outputs_[static_cast<size_t>(from)];
  outputs_[static_cast<size_t>(from)] = 0;
  if (!graph.at(to).is_constant() &&
      (graph.at(to).name.empty() || (graph.has_onnx_name(from) && !graph.has_onnx_name(to))))
    graph.at(to).name = std::exchange(graph.at(from).name, {});
  drop_if_unused(from, into);
}

void Rewriter::drop_if_unused(ValueId id, uint32_t into) {
  std::vector<ValueId> pending{id};
  while (!pending.empty()) {
    ValueId unused = pending.back();
    pending.pop_back();
    OpId producer_op = producer(unused);
    if (producer_op < 0 || op(producer_op).kind == Kind::kDead) continue;
    bool needed = std::any_of(op(producer_op).outputs.begin(), op(producer_op).outputs.end(),
                              [&](ValueId out) { return out != kAbsent && uses(out) > 0; });
    if (needed) continue;
    keep_name(graph, op(producer_op));
    op(producer_op).kind = Kind::kDead;
    if (const uint32_t origin = op(producer_op).origin; into != kNoOrigin && origin != into)
      graph.fused_origins.emplace_back(origin, into);
    for (ValueId in : op(producer_op).inputs) {
      if (in == kAbsent) continue;
      std::vector<OpId>& list = users_[static_cast<size_t>(in)];
      list.erase(std::find(list.begin(), list.end(), producer_op));
      if (list.size() == 1) touched_.push_back(list[0]);
      pending.push_back(in);
    }
  }
}

std::vector<OpId> Rewriter::take_touched() {
  std::sort(touched_.begin(), touched_.end());
  touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
  return std::exchange(touched_, {});
}

void apply_rules(Graph& graph, const std::function<std::span<const Rule>(Kind)>& rules_of) {
  Rewriter rewriter(graph);
  bool changed = true;
  auto visit = [&](OpId id) {
    if (rewriter.op(id).kind == Kind::kDead) return;
    rewriter.b.built_for = id;
    for (Rule rule : rules_of(rewriter.op(id).kind)) {
      if (rewriter.op(id).kind == Kind::kDead) break;
      if (!rule(rewriter, id)) continue;
      rewriter.note_new_ops();
      changed = true;
    }
  };
  // Ops that rules add are visited at the end of the same sweep.
  auto visit_from = [&](OpId id) {
    for (; id < static_cast<OpId>(graph.ops.size()); ++id) visit(id);
  };
  while (changed) {
    changed = false;
    visit_from(0);
    // What a rule did is mostly of use to its neighbours. Without this, an op that moves along a chain of n ops takes
    // n sweeps of the whole graph.
    for (std::vector<OpId> touched = rewriter.take_touched(); !touched.empty(); touched = rewriter.take_touched()) {
      const auto end = static_cast<OpId>(graph.ops.size());
      for (const OpId id : touched) visit(id);
      visit_from(end);
    }
  }
  graph.tidy();
}

void apply_rule(Graph& graph, Kind kind, Rule rule) {
  const std::span<const Rule> rules(&rule, 1);
  apply_rules(graph, [&](Kind of) { return of == kind ? rules : std::span<const Rule>(); });
}

}  // namespace lowtide::core
