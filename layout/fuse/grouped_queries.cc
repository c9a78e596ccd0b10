// SPDX-License-Identifier: Apache-2.0
// Grouped-query attention: keys and values of few heads, repeated for the heads of the queries. The rows of the queries
// that share a head become rows of one product instead, and nothing is repeated:
//
//     q [B, 8, M, D] . repeat(k [B, 2, S, D])  =  q [B, 2, 4 * M, D] . k        each head of k serves 4 of q
#include <algorithm>
#include <array>
#include <optional>

#include "layout/fuse/rules.h"

namespace lowtide::layout {
namespace {

using core::Dim;
using core::Shape;

// A value without repetitions, and how often each of its parts is repeated.
struct Repeated {
  ValueId source = core::kAbsent;
  Dim before = 1, times = 1;  // elements in front of the repeated axis; repetitions
};

// What a BROADCAST_TO or TILE repeats along one axis of extent 1, a number of times that is known.
std::optional<Repeated> repeated_along_one_axis(Rewriter& rewriter, ValueId id) {
  const OpId producer = rewriter.producer(id);
  if (producer < 0) return std::nullopt;
  const Op& op = rewriter.op(producer);
  if (op.kind != Kind::kBroadcastTo && op.kind != Kind::kTile) return std::nullopt;
  const Shape &from = rewriter.value(op.inputs[0]).shape, &to = rewriter.value(id).shape;
  if (from.size() != to.size()) return std::nullopt;
  std::optional<size_t> axis;
  for (size_t i = 0; i < to.size(); ++i) {
    if (from[i] == to[i]) continue;
    if (from[i] != 1 || axis) return std::nullopt;
    axis = i;
  }
  if (!axis || !stream::is_static(to[*axis])) return std::nullopt;
  return Repeated{op.inputs[0], rewriter.graph.symbols.product(std::span(to).first(*axis)), to[*axis]};
}

bool share_heads(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  const auto options = std::get<core::BatchMatmulOptions>(op.options);
  const OpId merge = rewriter.sole_producer(op.inputs[1], Kind::kReshape);
  if (options.adj_x || merge < 0 || rewriter.value(op.outputs[0]).quantization) return false;
  const std::optional<Repeated> keys = repeated_along_one_axis(rewriter, rewriter.op(merge).inputs[0]);
  if (!keys || keys->times < 2) return false;
  const Shape q = rewriter.value(op.inputs[0]).shape, k = rewriter.value(op.inputs[1]).shape;
  const Shape result = rewriter.value(op.outputs[0]).shape;
  if (k.size() < 3 || q.size() != k.size() || !std::equal(q.begin(), q.end() - 2, k.begin())) return false;
  const size_t heads = k.size() - 3;  // its axis
  // The repetition is the inner part of the heads' axis.
  if (!stream::is_static(k[heads]) || k[heads] % keys->times != 0) return false;
  core::Symbols& symbols = rewriter.graph.symbols;
  auto with_heads = [&](Shape shape, Dim rows) {
    shape[heads] = k[heads] / keys->times;
    shape[heads + 1] = rows;
    return shape;
  };
  const Shape shared = with_heads(k, k[heads + 1]);
  if (symbols.product(std::span(shared).first(heads + 1)) != keys->before) return false;
  const Dim rows = symbols.product(std::array{keys->times, q[heads + 1]});
  const Shape joined = with_heads(q, rows);
  core::Builder& b = rewriter.b;
  for (const Shape* shape : {&joined, &shared, &result})
    if (!b.can_reshape_to(*shape)) return false;
  b.origin = op.origin;
  const Val product =
      b.op(Kind::kBatchMatmul, {b.reshape({op.inputs[0]}, joined), b.reshape({keys->source}, shared)}, options);
  const Val made = b.reshape(product, result);
  rewriter.note_new_ops();
  rewriter.replace(op.outputs[0], made.id);
  return true;
}

constexpr std::array kGroupedQueriesRules = {FuseRule{Kind::kBatchMatmul, share_heads}};

}  // namespace

std::span<const FuseRule> grouped_queries_rules() { return kGroupedQueriesRules; }

}  // namespace lowtide::layout
