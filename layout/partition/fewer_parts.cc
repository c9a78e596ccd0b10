// SPDX-License-Identifier: Apache-2.0
#include "layout/partition/fewer_parts.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "layout/partition/fewest.h"

namespace lowtide::layout {
namespace {

// Each costs a division of the whole graph.
constexpr size_t kMostTrials = 2000;

// Units of the target in one piece that values connect.
std::vector<std::vector<size_t>> target_parts(const UnitGraph& graph, const Division& division) {
  std::vector<size_t> parent(graph.units.size());
  std::iota(parent.begin(), parent.end(), size_t{0});
  auto root = [&](size_t unit) {
    while (parent[unit] != unit) unit = parent[unit] = parent[parent[unit]];
    return unit;
  };
  for (const SeamValue& value : graph.values)
    for (const size_t user : value.users)
      if (division.piece[user] == division.piece[value.producer]) parent[root(user)] = root(value.producer);
  std::vector<std::vector<size_t>> parts(graph.units.size());
  for (size_t unit = 0; unit < graph.units.size(); ++unit)
    if (division.runtime(division.piece[unit]) == PieceRuntime::kTarget) parts[root(unit)].push_back(unit);
  parts.erase(std::remove_if(parts.begin(), parts.end(), [](const auto& part) { return part.empty(); }), parts.end());
  return parts;
}

class Dropping {
 public:
  Dropping(const UnitGraph& graph, const DivisionCosts& costs, const PieceLimits& limits)
      : graph_(graph), costs_(costs), limits_(limits), left_(graph) {}

  Division find() {
    best_.piece.assign(graph_.units.size(), 0);
    best_.pieces = graph_.units.empty() ? 0 : 1;
    best_.first = PieceRuntime::kOnnx;
    best_cost_ = cost_of(graph_, best_, costs_);
    take(fewest_pieces(left_).division);
    drop_all_below();
    for (bool better = true; better && trials_ < kMostTrials;) better = drop_one_by_one();
    return best_;
  }

 private:
  // Whether it is better than what is known.
  bool take(Division division) {
    const uint64_t cost = cost_of(graph_, division, costs_);
    if (!limits_.allow(division) || cost >= best_cost_) return false;
    best_cost_ = cost;
    best_ = std::move(division);
    return true;
  }

  uint64_t work(const std::vector<size_t>& part) const {
    uint64_t sum = 0;
    for (const size_t unit : part) sum += graph_.units[unit].in(PieceRuntime::kOnnx);
    return sum;
  }

  static void drop(const std::vector<size_t>& part, UnitGraph& graph) {
    for (const size_t unit : part) graph.units[unit].work[static_cast<size_t>(PieceRuntime::kTarget)] = kCannotRun;
  }

  // All parts of less work than a power of two: many that are worth nothing together.
  void drop_all_below() {
    UnitGraph kept = left_;
    for (int power = 10; power < 50; ++power) {
      UnitGraph tried = left_;
      for (const auto& part : target_parts(left_, fewest_pieces(left_).division))
        if (work(part) < uint64_t{1} << power) drop(part, tried);
      if (take(fewest_pieces(tried).division)) kept = std::move(tried);
    }
    left_ = std::move(kept);
  }

  bool drop_one_by_one() {
    std::vector<std::vector<size_t>> parts = target_parts(left_, fewest_pieces(left_).division);
    std::stable_sort(parts.begin(), parts.end(), [&](const auto& a, const auto& b) { return work(a) < work(b); });
    bool better = false;
    for (const auto& part : parts) {
      if (++trials_ > kMostTrials) break;
      UnitGraph tried = left_;
      drop(part, tried);
      if (!take(fewest_pieces(tried).division)) continue;
      left_ = std::move(tried);
      better = true;
    }
    return better;
  }

  const UnitGraph& graph_;
  const DivisionCosts& costs_;
  const PieceLimits& limits_;
  UnitGraph left_;  // where what was dropped cannot be in the target
  Division best_;
  uint64_t best_cost_ = 0;
  size_t trials_ = 0;
};

}  // namespace

Division division_of_fewer_parts(const UnitGraph& graph, const DivisionCosts& costs, const PieceLimits& limits) {
  return Dropping(graph, costs, limits).find();
}

}  // namespace lowtide::layout
