// SPDX-License-Identifier: Apache-2.0
#include "layout/core/orders.h"

#include <algorithm>
#include <numeric>

#include "layout/core/builder.h"
#include "layout/core/builtin.h"

namespace lowtide::layout {

using core::Kind;
using core::Op;
using core::Value;

Orders::Orders(Graph& graph)
    : perms_(std::make_unique<PermPool>()),
      held_(graph.values.size()),
      first_(graph.values.size() + 1, 0),
      views_(graph.ops.size(), false) {
  std::vector<const Perm*> identities;  // by rank
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const auto rank = static_cast<size_t>(graph.values[v].rank());
    while (identities.size() <= rank)
      identities.push_back(&perms_->held(stream::identity_perm(static_cast<int>(identities.size()))));
    held_[v] = {static_cast<ValueId>(v), identities[rank]};
  }
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (op.kind != Kind::kTranspose) continue;
    auto perm = graph.ints(op.inputs[1]);
    if (!perm) continue;
    views_[i] = true;
    const Held source = held(op.inputs[0]);
    held_[static_cast<size_t>(op.outputs[0])] = {
        source.base, &perms_->held(stream::compose(*source.order, Perm(perm->begin(), perm->end())))};
  }
  auto each_use = [&](auto visit) {
    for (size_t i = 0; i < graph.ops.size(); ++i) {
      if (views_[i]) continue;
      const Op& op = graph.ops[i];
      for (size_t slot = 0; slot < op.inputs.size(); ++slot)
        if (op.inputs[slot] != core::kAbsent) visit(static_cast<OpId>(i), slot, held(op.inputs[slot]));
    }
    for (size_t i = 0; i < graph.outputs.size(); ++i) visit(-1, i, held(graph.outputs[i]));
  };
  each_use([&](OpId, size_t, const Held& seen) { ++first_[static_cast<size_t>(seen.base) + 1]; });
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  uses_.resize(first_.back());
  std::vector<uint32_t> filled(first_.begin(), first_.end() - 1);
  each_use([&](OpId op, size_t slot, const Held& seen) {
    uses_[filled[static_cast<size_t>(seen.base)]++] = {op, static_cast<uint32_t>(slot), seen.order};
  });
}

namespace {

// A dynamic leading axis of an input is nearly always the batch, and 1.
bool is_batch(const Graph& graph, core::Dim symbol) {
  return std::any_of(graph.inputs.begin(), graph.inputs.end(), [&](ValueId in) {
    const core::Shape& shape = graph.at(in).shape;
    return !shape.empty() && shape[0] == symbol;
  });
}

}  // namespace

uint64_t transpose_cost(const Graph& graph, ValueId id, const Perm& perm) {
  constexpr uint64_t kOpCost = 64, kReshapeCost = 1;
  constexpr uint64_t kNominalExtent = 32, kMost = uint64_t{1} << 40;
  const Value& value = graph.at(id);
  if (stream::is_identity(perm)) return 0;
  if (stream::moves_no_bytes(value.shape, perm)) return kReshapeCost;
  uint64_t bytes = static_cast<uint64_t>(std::max(1, stream::bits(value.dtype) / 8));
  for (core::Dim dim : value.shape) {
    // In any position: a value must not become cheaper by being stored in another order.
    uint64_t extent = stream::is_static(dim) ? static_cast<uint64_t>(dim) : is_batch(graph, dim) ? 1 : kNominalExtent;
    bytes = std::min(kMost, bytes * std::max<uint64_t>(1, extent));
  }
  return bytes + kOpCost;
}

std::optional<core::Quantization> permuted_scales(std::optional<core::Quantization> scales, const Perm& perm) {
  if (scales && scales->scale.size() > 1) scales->axis = core::moved_axis(scales->axis, perm);
  return scales;
}

ValueId permuted_value(Graph& graph, ValueId id, const Perm& perm, bool reshape_allowed, uint32_t origin,
                       OpId built_for) {
  if (stream::is_identity(perm)) return id;
  if (graph.at(id).is_constant()) {
    ValueId made = graph.add_constant(stream::recipe::permute(graph.at(id).constant, perm));
    graph.at(made).quantization = graph.at(id).quantization;
    if (graph.at(made).quantization)
      graph.at(made).quantization->axis = core::moved_axis(graph.at(made).quantization->axis, perm);
    return made;
  }
  core::Builder builder(graph);
  builder.origin = origin;
  builder.built_for = built_for;
  std::optional<core::Quantization> quantization = permuted_scales(graph.at(id).quantization, perm);
  core::Val out = reshape_allowed && stream::moves_no_bytes(graph.at(id).shape, perm)
                      ? builder.reshape({id}, stream::permuted(graph.at(id).shape, perm))
                      : builder.transpose({id}, perm);
  graph.at(out.id).quantization = std::move(quantization);
  return out.id;
}

}  // namespace lowtide::layout
