// SPDX-License-Identifier: Apache-2.0
// Every algorithm of a division against exhaustive search on random graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>

#include "layout/partition/by_memory.h"
#include "layout/partition/cheapest.h"
#include "layout/partition/contract.h"
#include "layout/partition/fewer_parts.h"
#include "layout/partition/fewest.h"
#include "stream/error.h"

namespace lowtide::layout {
namespace {

using testing::ElementsAre;
using Random = std::mt19937;

size_t pick(Random& random, size_t most) { return std::uniform_int_distribution<size_t>(0, most)(random); }

UnitGraph random_units(Random& random, size_t most_units) {
  UnitGraph graph;
  graph.units.resize(pick(random, most_units - 1) + 1);
  for (Unit& unit : graph.units) {
    unit.work = {pick(random, 9), pick(random, 20)};
    if (pick(random, 2) == 0) unit.work[0] = kCannotRun;
  }
  const size_t density = pick(random, 4) + 1;
  for (size_t producer = 0; producer + 1 < graph.units.size(); ++producer)
    for (size_t value = pick(random, 1); value < 2; ++value) {
      SeamValue made{.producer = producer, .users = {}, .bytes = pick(random, 5)};
      for (size_t user = producer + 1; user < graph.units.size(); ++user)
        if (pick(random, density) == 0) made.users.push_back(user);
      if (!made.users.empty()) graph.values.push_back(made);
    }
  return graph;
}

// Whether the pieces can run one after the other, each in a runtime that can run all of it.
bool can_run(const UnitGraph& graph, const Division& division) {
  for (const SeamValue& value : graph.values)
    for (const size_t user : value.users)
      if (division.piece[user] < division.piece[value.producer]) return false;
  for (size_t unit = 0; unit < graph.units.size(); ++unit)
    if (graph.units[unit].in(division.runtime(division.piece[unit])) == kCannotRun) return false;
  return std::set(division.piece.begin(), division.piece.end()).size() == division.pieces;
}

bool in_own_runtimes(const UnitGraph& graph, const Division& division) {
  for (size_t unit = 0; unit < graph.units.size(); ++unit)
    if (graph.units[unit].in_target() != (division.runtime(division.piece[unit]) == PieceRuntime::kTarget))
      return false;
  return true;
}

// The fewest pieces over all orders of the units, by a search over the sets of units that are done: from each set any
// ready unit may run next, in the piece of the one before or in a new one. `counts`: what a piece counts, by runtime.
size_t fewest_by_search(const UnitGraph& graph, const std::array<size_t, 2>& counts) {
  const size_t count = graph.units.size();
  std::vector<unsigned> needs(count);
  for (const SeamValue& value : graph.values)
    for (const size_t user : value.users) needs[user] |= 1U << value.producer;
  constexpr size_t kNone = SIZE_MAX;
  std::vector<std::array<size_t, 2>> pieces(size_t{1} << count, {kNone, kNone});  // by set and runtime of the last unit
  size_t best = kNone;
  for (unsigned done = 0; done < pieces.size(); ++done)
    for (size_t unit = 0; unit < count; ++unit) {
      if ((done >> unit & 1) != 0 || (needs[unit] & ~done) != 0) continue;
      const size_t runtime = graph.units[unit].in_target() ? 0 : 1;
      size_t least = done == 0 ? counts[runtime] : pieces[done][runtime];
      if (done != 0 && pieces[done][1 - runtime] != kNone)
        least = std::min(least, pieces[done][1 - runtime] + counts[runtime]);
      size_t& there = pieces[done | 1U << unit][runtime];
      there = std::min(there, least);
    }
  for (const size_t runtime : {0, 1}) best = std::min(best, pieces.back()[runtime]);
  return best;
}

bool is_path(const UnitGraph& graph, const std::vector<size_t>& path) {
  for (size_t i = 1; i < path.size(); ++i) {
    const bool has_edge = std::any_of(graph.values.begin(), graph.values.end(), [&](const SeamValue& value) {
      return value.producer == path[i - 1] &&
             std::find(value.users.begin(), value.users.end(), path[i]) != value.users.end();
    });
    if (!has_edge) return false;
  }
  return !path.empty();
}

// What the paths prove.
size_t proved_pieces(const UnitGraph& graph, const std::vector<std::vector<size_t>>& paths) {
  std::optional<size_t> most;
  std::set<bool> begins;
  for (const std::vector<size_t>& path : paths) {
    EXPECT_TRUE(is_path(graph, path));
    size_t changes = 0;
    for (size_t i = 1; i < path.size(); ++i)
      changes += graph.units[path[i]].in_target() != graph.units[path[i - 1]].in_target() ? 1 : 0;
    EXPECT_TRUE(!most || changes == *most);
    most = changes;
    begins.insert(graph.units[path[0]].in_target());
  }
  return *most + begins.size();
}

TEST(FewestPieces, EqualExhaustiveSearchAndAreProved) {
  Random random(1);
  for (int round = 0; round < 10'000; ++round) {
    const UnitGraph graph = random_units(random, round % 20 == 0 ? 12 : 9);
    const FewestPieces found = fewest_pieces(graph);
    ASSERT_TRUE(can_run(graph, found.division)) << round;
    ASSERT_TRUE(in_own_runtimes(graph, found.division)) << round;
    ASSERT_EQ(found.division.pieces, fewest_by_search(graph, {1, 1})) << round;
    ASSERT_EQ(found.division.pieces_in_target(), fewest_by_search(graph, {1, 0})) << round;
    ASSERT_EQ(found.division.pieces, proved_pieces(graph, found.paths)) << round;
  }
}

TEST(FewestPieces, OfNothing) {
  const FewestPieces found = fewest_pieces({});
  EXPECT_EQ(found.division.pieces, 0u);
  EXPECT_TRUE(found.paths.empty());
}

// Over all labels of the units, by both first runtimes.
uint64_t cheapest_by_search(const UnitGraph& graph, const DivisionCosts& costs, const PieceLimits& limits) {
  uint64_t best = kCannotRun;
  const size_t count = graph.units.size();
  for (const PieceRuntime first : {PieceRuntime::kTarget, PieceRuntime::kOnnx})
    for (size_t pieces = 1; pieces <= count; ++pieces) {
      Division division{std::vector<size_t>(count, 0), pieces, first};
      if (!limits.allow(division)) continue;
      for (bool is_over = false; !is_over;) {
        if (can_run(graph, division)) best = std::min(best, cost_of(graph, division, costs));
        is_over = true;
        for (size_t& piece : division.piece) {
          if (++piece < pieces) {
            is_over = false;
            break;
          }
          piece = 0;
        }
      }
    }
  return best;
}

TEST(CheapestDivision, EqualsAllLabels) {
  Random random(2);
  for (int round = 0; round < 10'000; ++round) {
    const UnitGraph graph = random_units(random, round % 500 == 0 ? 7 : 5);
    const DivisionCosts costs{pick(random, 12), pick(random, 3)};
    PieceLimits limits;
    if (round % 3 == 0) limits.pieces = pick(random, 3) + 1;
    if (round % 2 == 0) limits.in_target = pick(random, 1) + 1;
    const Division found = cheapest_division(graph, costs, limits);
    ASSERT_TRUE(can_run(graph, found)) << round;
    ASSERT_TRUE(limits.allow(found)) << round;
    ASSERT_EQ(cost_of(graph, found, costs), cheapest_by_search(graph, costs, limits)) << round;
  }
}

TEST(FewerParts, KeepToTheLimits) {
  Random random(5);
  for (int round = 0; round < 1000; ++round) {
    const UnitGraph graph = random_units(random, 9);
    const PieceLimits limits{pick(random, 4) + 1, pick(random, 1) + 1};
    const Division found = division_of_fewer_parts(graph, {pick(random, 12), pick(random, 3)}, limits);
    ASSERT_TRUE(can_run(graph, found)) << round;
    ASSERT_TRUE(limits.allow(found)) << round;
  }
}

TEST(PieceLimits, OnePieceInTheTargetMayStandBetweenTwo) {
  UnitGraph graph;
  graph.units = {{{kCannotRun, 5}}, {{1, 1000}}, {{kCannotRun, 5}}};
  graph.values = {{0, {1}, 1}, {1, {2}, 1}};
  EXPECT_THAT(cheapest_division(graph, {.per_switch = 1, .per_byte = 1}, {.in_target = 1}).piece, ElementsAre(0, 1, 2));
}

TEST(CheapestDivision, LeavesAlonePieceThatCostsMoreThanItSaves) {
  UnitGraph graph;
  graph.units = {{{10, 20}}, {{kCannotRun, 5}}, {{10, 12}}};
  graph.values = {{0, {1}, 3}, {1, {2}, 7}};
  const Division found = cheapest_division(graph, {.per_switch = 1, .per_byte = 1}, {.pieces = 3});
  EXPECT_THAT(found.piece, ElementsAre(0, 1, 1));
  EXPECT_EQ(found.first, PieceRuntime::kTarget);
  EXPECT_EQ(cost_of(graph, found, {.per_switch = 1, .per_byte = 1}), 31u);
}

TEST(Contract, UnitsAreTheSmallestOnes) {
  Random random(3);
  for (int round = 0; round < 10'000; ++round) {
    const size_t nodes = pick(random, 11) + 1;
    std::vector<std::pair<size_t, size_t>> edges, together;
    for (size_t from = 0; from < nodes; ++from)
      for (size_t to = from + 1; to < nodes; ++to)
        if (pick(random, 4) == 0) edges.emplace_back(from, to);
    for (size_t i = pick(random, 3); i > 0; --i)
      together.emplace_back(pick(random, nodes - 1), pick(random, nodes - 1));
    std::vector<std::vector<bool>> reaches(nodes, std::vector<bool>(nodes));
    for (size_t i = 0; i < nodes; ++i) reaches[i][i] = true;
    for (const auto& [a, b] : edges) reaches[a][b] = true;
    for (const auto& [a, b] : together) reaches[a][b] = reaches[b][a] = true;
    for (size_t by = 0; by < nodes; ++by)
      for (size_t a = 0; a < nodes; ++a)
        for (size_t b = 0; b < nodes; ++b)
          if (reaches[a][by] && reaches[by][b]) reaches[a][b] = true;
    const Contraction found = contract(nodes, edges, together);
    ASSERT_EQ(found.units, std::set(found.unit.begin(), found.unit.end()).size());
    for (size_t a = 0; a < nodes; ++a)
      for (size_t b = 0; b < nodes; ++b)
        ASSERT_EQ(found.unit[a] == found.unit[b], reaches[a][b] && reaches[b][a]) << round;
    for (const auto& [a, b] : edges) ASSERT_LE(found.unit[a], found.unit[b]) << round;
  }
}

TEST(Contract, PathsMayBeLong) {
  constexpr size_t kNodes = 200'000;
  std::vector<std::pair<size_t, size_t>> edges;
  for (size_t i = 0; i + 1 < kNodes; ++i) edges.emplace_back(i, i + 1);
  EXPECT_EQ(contract(kNodes, edges, {}).units, kNodes);
  EXPECT_EQ(contract(kNodes, edges, {{0, kNodes - 1}}).units, 1u);
}

// Of cuts given as bits: the bytes and their number, or nothing when a piece is too large.
std::optional<std::pair<uint64_t, size_t>> cost_of_cuts(const std::vector<OrderedUnit>& order, unsigned cuts) {
  std::pair<uint64_t, size_t> cost{0, 0};
  std::map<size_t, uint64_t> weights;
  uint64_t activations = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const bool cut = i > 0 && (cuts >> i & 1) != 0;
    if (i > 0 && order[i].must_cut && !cut) return std::nullopt;
    if (cut) {
      cost.first += order[i].seam_bytes;
      ++cost.second;
      weights.clear();
      activations = 0;
    }
    for (const PartWeights& part : order[i].weights) weights[part.number] = part.bytes;
    activations = std::max(activations, order[i].activation_bytes);
    uint64_t bytes = activations;
    for (const auto& [number, part] : weights) bytes += part;
    if (bytes > order[i].limit) return std::nullopt;
  }
  return cost;
}

TEST(CutByMemory, EqualsAllCuts) {
  Random random(4);
  for (int round = 0; round < 10'000; ++round) {
    std::vector<OrderedUnit> order(pick(random, 8) + 1);
    std::array<uint64_t, 2> limits = {18 + pick(random, 20), round % 3 == 0 ? UINT64_MAX : 18 + pick(random, 20)};
    std::array<uint64_t, 4> shared = {};  // weights that several units use
    for (uint64_t& bytes : shared) bytes = pick(random, 9);
    for (size_t i = 0; i < order.size(); ++i) {
      OrderedUnit& unit = order[i];
      unit = {{}, pick(random, 9), pick(random, 4), pick(random, 7) == 0};
      if (const size_t number = pick(random, 5); number < shared.size())
        unit.weights.push_back({number, shared[number]});
      else
        unit.weights.push_back({shared.size() + i, pick(random, 9)});
      if (unit.must_cut) std::swap(limits[0], limits[1]);
      unit.limit = limits[0];
    }
    for (const FewestOf what : {FewestOf::kBytes, FewestOf::kPieces}) {
      auto is_less = [&](auto a, auto b) {
        return what == FewestOf::kBytes ? a < b : std::pair(a.second, a.first) < std::pair(b.second, b.first);
      };
      std::optional<std::pair<uint64_t, size_t>> best;
      for (unsigned cuts = 0; cuts < 1U << order.size(); cuts += 2)
        if (const auto cost = cost_of_cuts(order, cuts))
          if (!best || is_less(*cost, *best)) best = cost;
      unsigned found = 0;
      for (const size_t place : cut_by_memory(order, what)) found |= 1U << place;
      ASSERT_EQ(cost_of_cuts(order, found), best) << round;
    }
  }
}

TEST(CutByMemory, NamesTheSmallestLimit) {
  try {
    cut_by_memory({{{{0, 10}}, 5, 0, false, 110}, {{{1, 100}}, 11, 3, false, 110}, {{{2, 1}}, UINT64_MAX, 3, true}});
    FAIL() << "no error";
  } catch (const stream::Error& error) {
    EXPECT_EQ(error.code(), stream::Code::kBudget);
    EXPECT_THAT(error.what(), testing::HasSubstr("a limit of 111 bytes would do"));
  }
  EXPECT_TRUE(cut_by_memory({}).empty());
}

}  // namespace
}  // namespace lowtide::layout
