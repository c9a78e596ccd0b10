// SPDX-License-Identifier: Apache-2.0
#include "layout/partition/cheapest.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "layout/core/cut.h"

namespace lowtide::layout {
namespace {

// More than all costs together, and far below what the solver sums.
constexpr uint64_t kNever = uint64_t{1} << 51;

uint64_t payable(uint64_t work) { return work == kCannotRun ? kNever : work; }

// The labels for a fixed number of pieces; some pieces may stay without units.
Division labelled(const UnitGraph& graph, const DivisionCosts& costs, size_t pieces, PieceRuntime first) {
  Division out{std::vector<size_t>(graph.units.size(), 0), pieces, first};
  if (pieces == 1) return out;
  Cut cut;
  const size_t borders = pieces - 1;
  std::vector<Cut::Var> behind(graph.units.size() * borders);  // whether a unit is behind a border
  for (Cut::Var& var : behind) var = cut.add();
  auto at = [&](size_t unit, size_t border) { return behind[unit * borders + border]; };
  for (size_t unit = 0; unit < graph.units.size(); ++unit) {
    auto work = [&](size_t piece) { return payable(graph.units[unit].in(out.runtime(piece))); };
    cut.pay_if_zero(at(unit, 0), work(0));
    cut.pay_if_one(at(unit, borders - 1), work(borders));
    for (size_t border = 1; border < borders; ++border) {
      const std::array last = {at(unit, border - 1)}, next = {at(unit, border)};
      cut.pay_if_zero_and_any_one(at(unit, border), last, work(border));
      cut.pay_if_zero_and_any_one(at(unit, border - 1), next, kNever);
    }
  }
  for (const SeamValue& value : graph.values)
    for (size_t border = 0; border < borders; ++border) {
      std::vector<Cut::Var> users;
      for (const size_t user : value.users) {
        const std::array producer = {at(value.producer, border)};
        cut.pay_if_zero_and_any_one(at(user, border), producer, kNever);
        users.push_back(at(user, border));
      }
      const uint64_t bytes = value.bytes * costs.per_byte;
      if (bytes > 0 && !users.empty()) cut.pay_if_zero_and_any_one(at(value.producer, border), users, bytes);
    }
  const std::vector<bool> labels = cut.solve();
  for (size_t unit = 0; unit < graph.units.size(); ++unit)
    for (size_t border = 0; border < borders; ++border)
      if (labels[static_cast<size_t>(at(unit, border))]) out.piece[unit] = border + 1;
  return out;
}

// With fewer pieces than a graph needs whose units cannot run in ONNX, the cut has to break an order.
bool keeps_order(const UnitGraph& graph, const Division& division) {
  return std::all_of(graph.values.begin(), graph.values.end(), [&](const SeamValue& value) {
    return std::all_of(value.users.begin(), value.users.end(),
                       [&](size_t user) { return division.piece[value.producer] <= division.piece[user]; });
  });
}

// Without pieces that have no units: their neighbours are of one runtime, and become one.
void close_gaps(Division& division) {
  std::vector<bool> has_units(division.pieces);
  for (const size_t piece : division.piece) has_units[piece] = true;
  std::vector<size_t> renamed(division.pieces);
  std::optional<PieceRuntime> last;
  size_t pieces = 0;
  PieceRuntime first = division.first;
  for (size_t piece = 0; piece < division.pieces; ++piece) {
    if (!has_units[piece]) continue;
    const PieceRuntime runtime = division.runtime(piece);
    if (!last) first = runtime;
    if (runtime != last) ++pieces;
    last = runtime;
    renamed[piece] = pieces - 1;
  }
  for (size_t& piece : division.piece) piece = renamed[piece];
  division.pieces = pieces;
  division.first = first;
}

}  // namespace

uint64_t cost_of(const UnitGraph& graph, const Division& division, const DivisionCosts& costs) {
  uint64_t cost = division.pieces > 1 ? (division.pieces - 1) * costs.per_switch : 0;
  for (size_t unit = 0; unit < graph.units.size(); ++unit) {
    const uint64_t work = graph.units[unit].in(division.runtime(division.piece[unit]));
    if (work == kCannotRun) return kCannotRun;
    cost += work;
  }
  for (const SeamValue& value : graph.values) {
    size_t last = division.piece[value.producer];
    for (const size_t user : value.users) last = std::max(last, division.piece[user]);
    cost += (last - division.piece[value.producer]) * value.bytes * costs.per_byte;
  }
  return cost;
}

Division cheapest_division(const UnitGraph& graph, const DivisionCosts& costs, const PieceLimits& limits) {
  uint64_t least_work = 0;
  for (const Unit& unit : graph.units)
    least_work += std::min(unit.in(PieceRuntime::kTarget), unit.in(PieceRuntime::kOnnx));
  Division best;
  uint64_t best_cost = std::numeric_limits<uint64_t>::max();
  // The cost without switches that no division of so many labels undercuts.
  auto try_pieces = [&](size_t pieces, PieceRuntime first) {
    if (!limits.allow({{}, pieces, first})) return kCannotRun;
    Division division = labelled(graph, costs, pieces, first);
    if (!keeps_order(graph, division)) return least_work;
    const uint64_t bound = cost_of(graph, division, {0, costs.per_byte});
    if (bound == kCannotRun) return least_work;
    close_gaps(division);
    const uint64_t cost = cost_of(graph, division, costs);
    if (cost < best_cost) {
      best_cost = cost;
      best = std::move(division);
    }
    return bound;
  };
  // A piece for each unit is the most that a division has.
  const size_t most = std::min(limits.most(), std::max<size_t>(graph.units.size(), 1));
  for (const PieceRuntime first : {PieceRuntime::kTarget, PieceRuntime::kOnnx}) try_pieces(1, first);
  // Pieces may stay empty, so what the most pieces cost without switches no division undercuts: most numbers of pieces
  // between need no cut of their own. One of the two ways to begin is always within the limits.
  if (most > 3 && costs.per_switch > 0) {
    const uint64_t target_first = try_pieces(most, PieceRuntime::kTarget);
    const uint64_t bound = std::min(target_first, try_pieces(most, PieceRuntime::kOnnx));
    least_work = std::max(least_work, bound);
  }
  for (size_t pieces = 2; pieces <= most && (pieces - 1) * costs.per_switch + least_work < best_cost; ++pieces)
    for (const PieceRuntime first : {PieceRuntime::kTarget, PieceRuntime::kOnnx}) try_pieces(pieces, first);
  return best;
}

}  // namespace lowtide::layout
