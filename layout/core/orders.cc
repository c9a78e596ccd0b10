// SPDX-License-Identifier: Apache-2.0
#include "layout/core/orders.h"

#include <algorithm>

#include "layout/core/builder.h"
#include "layout/core/builtin.h"

namespace lowtide::layout {

using core::Kind;
using core::Op;
using core::Value;

Orders::Orders(Graph& graph) : held_(graph.values.size()), uses_(graph.values.size()), views_(graph.ops.size(), false) {
  for (size_t v = 0; v < graph.values.size(); ++v)
    held_[v] = {static_cast<ValueId>(v), stream::identity_perm(graph.values[v].rank())};
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const Op& op = graph.ops[i];
    if (op.kind == Kind::kTranspose) {
      if (auto perm = graph.ints(op.inputs[1])) {
        views_[i] = true;
        const Held source = held(op.inputs[0]);
        held_[static_cast<size_t>(op.outputs[0])] = {source.base,
                                                     stream::compose(source.order, Perm(perm->begin(), perm->end()))};
        continue;
      }
    }
    for (size_t slot = 0; slot < op.inputs.size(); ++slot) {
      if (op.inputs[slot] == core::kAbsent) continue;
      const Held& seen = held(op.inputs[slot]);
      uses_[static_cast<size_t>(seen.base)].push_back({static_cast<OpId>(i), slot, seen.order});
    }
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const Held& seen = held(graph.outputs[i]);
    uses_[static_cast<size_t>(seen.base)].push_back({-1, i, seen.order});
  }
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

ValueId permuted_value(Graph& graph, ValueId id, const Perm& perm, bool reshape_allowed, uint32_t origin) {
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
  const std::optional<core::Quantization> quantization = graph.at(id).quantization;
  core::Val out = reshape_allowed && stream::moves_no_bytes(graph.at(id).shape, perm)
                      ? builder.reshape({id}, stream::permuted(graph.at(id).shape, perm))
                      : builder.transpose({id}, perm);
  graph.at(out.id).quantization = quantization;
  return out.id;
}

}  // namespace lowtide::layout
