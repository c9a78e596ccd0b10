// SPDX-License-Identifier: Apache-2.0
#include "layout/partition/fewest.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace lowtide::layout {
namespace {

constexpr std::array kRuntimes = {PieceRuntime::kTarget, PieceRuntime::kOnnx};

PieceRuntime runtime_of(const Unit& unit) { return unit.in_target() ? PieceRuntime::kTarget : PieceRuntime::kOnnx; }

struct Edges {
  std::vector<std::vector<size_t>> next;
  std::vector<size_t> producers;  // how many edges lead to a unit
};

Edges edges_of(const UnitGraph& graph) {
  Edges out{std::vector<std::vector<size_t>>(graph.units.size()), std::vector<size_t>(graph.units.size())};
  for (const SeamValue& value : graph.values)
    for (const size_t user : value.users) {
      out.next[value.producer].push_back(user);
      ++out.producers[user];
    }
  return out;
}

Division exhaust(const UnitGraph& graph, const Edges& edges, PieceRuntime first) {
  Division out{std::vector<size_t>(graph.units.size()), 0, first};
  std::array<std::vector<size_t>, 2> ready;
  auto queue = [&](PieceRuntime runtime) -> std::vector<size_t>& { return ready[static_cast<size_t>(runtime)]; };
  std::vector<size_t> left = edges.producers;
  for (size_t unit = 0; unit < graph.units.size(); ++unit)
    if (left[unit] == 0) queue(runtime_of(graph.units[unit])).push_back(unit);
  PieceRuntime runtime = first;
  while (!ready[0].empty() || !ready[1].empty()) {
    for (std::vector<size_t>& open = queue(runtime); !open.empty();) {
      const size_t unit = open.back();
      open.pop_back();
      out.piece[unit] = out.pieces;
      for (const size_t user : edges.next[unit])
        if (--left[user] == 0) queue(runtime_of(graph.units[user])).push_back(user);
    }
    ++out.pieces;
    runtime = other_runtime(runtime);
  }
  return out;
}

// A first piece without units is none.
void drop_empty_first(Division& division) {
  if (std::find(division.piece.begin(), division.piece.end(), 0) != division.piece.end() || division.pieces == 0)
    return;
  for (size_t& piece : division.piece) --piece;
  --division.pieces;
  division.first = other_runtime(division.first);
}

// The path with the most changes among those that begin in `first`.
struct Longest {
  std::vector<size_t> units;
  size_t changes = 0;
};

std::optional<Longest> longest_path(const UnitGraph& graph, const Edges& edges, const std::vector<size_t>& order,
                                    PieceRuntime first) {
  constexpr size_t kNone = SIZE_MAX;
  std::vector<size_t> changes(graph.units.size(), kNone), before(graph.units.size(), kNone);
  size_t last = kNone;
  for (const size_t unit : order) {
    const PieceRuntime runtime = runtime_of(graph.units[unit]);
    if (changes[unit] == kNone) {
      if (runtime != first) continue;
      changes[unit] = 0;
    }
    if (last == kNone || changes[unit] > changes[last]) last = unit;
    for (const size_t user : edges.next[unit]) {
      const size_t there = changes[unit] + (runtime_of(graph.units[user]) != runtime ? 1 : 0);
      if (changes[user] != kNone && changes[user] >= there) continue;
      changes[user] = there;
      before[user] = unit;
    }
  }
  if (last == kNone) return std::nullopt;
  Longest out{{}, changes[last]};
  for (size_t unit = last; unit != kNone; unit = before[unit]) out.units.push_back(unit);
  std::reverse(out.units.begin(), out.units.end());
  return out;
}

std::vector<size_t> topological_order(const Edges& edges) {
  std::vector<size_t> left = edges.producers, order;
  for (size_t unit = 0; unit < left.size(); ++unit)
    if (left[unit] == 0) order.push_back(unit);
  for (size_t i = 0; i < order.size(); ++i)
    for (const size_t user : edges.next[order[i]])
      if (--left[user] == 0) order.push_back(user);
  return order;
}

}  // namespace

FewestPieces fewest_pieces(const UnitGraph& graph) {
  const Edges edges = edges_of(graph);
  const std::vector<size_t> order = topological_order(edges);
  FewestPieces out;
  std::vector<Longest> longest;
  for (const PieceRuntime first : kRuntimes) {
    Division division = exhaust(graph, edges, first);
    drop_empty_first(division);
    auto pieces = [](const Division& some) { return std::pair(some.pieces, some.pieces_in_target()); };
    if (first == kRuntimes[0] || pieces(division) < pieces(out.division)) out.division = std::move(division);
    if (std::optional<Longest> path = longest_path(graph, edges, order, first)) longest.push_back(std::move(*path));
  }
  std::stable_sort(longest.begin(), longest.end(),
                   [](const Longest& a, const Longest& b) { return a.changes > b.changes; });
  for (const Longest& path : longest)
    if (path.changes == longest[0].changes) out.paths.push_back(path.units);
  return out;
}

}  // namespace lowtide::layout
