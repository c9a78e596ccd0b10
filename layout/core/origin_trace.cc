// SPDX-License-Identifier: Apache-2.0
#include "layout/core/origin_trace.h"

#include <algorithm>
#include <utility>

namespace lowtide::core {
namespace {

using Fate = OriginResult::Fate;

std::vector<bool> origins_with_ops(const Graph& graph) {
  std::vector<bool> out(graph.origins.size(), false);
  for (const Op& op : graph.ops) out[op.origin] = true;
  return out;
}

// Those that still do their own work: a node that was fused into another one may have left a TRANSPOSE of the result.
std::vector<bool> origins_at_work(const Graph& graph) {
  std::vector<bool> is_fused(graph.origins.size(), false), out(graph.origins.size(), false);
  for (const auto& [from, into] : graph.fused_origins) is_fused[from] = true;
  for (const Op& op : graph.ops)
    if (op.kind != Kind::kTranspose || !is_fused[op.origin]) out[op.origin] = true;
  return out;
}

// By origin: the origin whose ops do its work, 0 when there is none.
std::vector<uint32_t> followed(const Graph& graph, const std::vector<bool>& alive) {
  // The last note counts: of a node that became two ops, one may have gone to its neighbour first.
  std::vector<uint32_t> next(graph.origins.size(), 0);
  for (const auto& [from, into] : graph.fused_origins) next[from] = into;
  std::vector<bool> done(next.size(), false);
  std::vector<uint32_t> path;
  for (uint32_t origin = 1; origin < next.size(); ++origin) {
    path.clear();
    uint32_t at = origin;
    // Each origin is passed once: what was passed already has its final answer, and a circle ends where it began.
    while (at != 0 && !alive[at] && !done[at]) {
      done[at] = true;
      path.push_back(at);
      at = next[at];
    }
    const bool is_circle = std::find(path.begin(), path.end(), at) != path.end();
    const uint32_t answer = at == 0 || is_circle ? 0 : alive[at] ? at : next[at];
    for (uint32_t passed : path) next[passed] = answer;
  }
  return next;
}

}  // namespace

void OriginTrace::lowered(const Model& model) {
  for (const auto& graph : model.graphs) has_op_[graph.get()] = origins_with_ops(*graph);
}

OriginResult OriginTrace::result(const Graph& graph) const {
  const std::vector<bool> alive = origins_at_work(graph), has_op = origins_with_ops(graph);
  const std::vector<uint32_t> into = followed(graph, alive);
  OriginResult out;
  out.fates.assign(graph.origins.size(), Fate::kFolded);
  const auto it = has_op_.find(&graph);
  // Pairs of a living origin and a node that went into it.
  std::vector<std::pair<uint32_t, uint32_t>> fused;
  for (uint32_t origin = 1; origin < out.fates.size(); ++origin) {
    const bool is_fused = !alive[origin] && into[origin] != 0;
    if (is_fused) fused.emplace_back(into[origin], origin);
    if (is_fused || has_op[origin]) {
      out.fates[origin] = Fate::kOps;
    } else if (it != has_op_.end() && origin < it->second.size() && it->second[origin]) {
      out.fates[origin] = Fate::kRemoved;
    }
  }
  std::sort(fused.begin(), fused.end());
  // Fused nodes are given to the last op of their origin that is no TRANSPOSE: those before, such as a PAD, prepare it.
  std::vector<uint32_t> last_op(graph.origins.size(), 0);
  for (bool is_transpose : {true, false})
    for (size_t i = 0; i < graph.ops.size(); ++i)
      if ((graph.ops[i].kind == Kind::kTranspose) == is_transpose)
        last_op[graph.ops[i].origin] = static_cast<uint32_t>(i);
  out.first.reserve(graph.ops.size() + 1);
  out.nodes.reserve(graph.ops.size() + fused.size());
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    out.first.push_back(static_cast<uint32_t>(out.nodes.size()));
    const uint32_t origin = graph.ops[i].origin;
    if (origin == 0) continue;
    out.nodes.push_back(origin);
    if (last_op[origin] != i) continue;
    auto at = std::lower_bound(fused.begin(), fused.end(), std::pair(origin, uint32_t{0}));
    for (; at != fused.end() && at->first == origin; ++at) out.nodes.push_back(at->second);
  }
  out.first.push_back(static_cast<uint32_t>(out.nodes.size()));
  return out;
}

}  // namespace lowtide::core
