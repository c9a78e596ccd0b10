// SPDX-License-Identifier: Apache-2.0
#include "layout/quantize/unmasked.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "stream/recipe/recipe_reader.h"

namespace lowtide::layout {
namespace {

// Models add two or three masks, whose sums are masks too.
constexpr size_t kMostMasks = 8;
// Each must have been seen more than once: samples that lie apart from all others are no masks.
constexpr uint64_t kLeastCount = 2;
constexpr double kLeastGap = 32;     // between masks and other numbers; e^-32 is 0 beside 1 in floats
constexpr double kCoarse = 8;        // a bin of this width does not say what its least number is
constexpr uint64_t kTile = 1 << 16;  // bytes

// `count` numbers from `low` to `high`.
struct Run {
  double low, high;
  uint64_t count;
};

// Of at most kMostMasks + 1 runs, ascending, which are the lowest; `most`: the largest number of all.
std::optional<double> least_but_masks(const std::vector<Run>& lowest, double most) {
  std::optional<double> least;
  uint64_t count = 0;
  for (size_t i = 0; i + 1 < lowest.size() && lowest[i].high <= kMask; ++i) {
    count += lowest[i].count;
    const Run& next = lowest[i + 1];
    const double gap = next.low - lowest[i].high;
    if (gap < kLeastGap || gap < most - next.low || count < kLeastCount * (i + 1)) continue;
    // As far below 0 as the largest is above, where the bin does not say it.
    least = next.high - next.low < kCoarse ? next.low : std::max(next.low, std::min(0.0, -most));
  }
  return least;
}

// The kMostMasks + 1 least different numbers.
class Lowest {
 public:
  void add(double number) {
    if (runs_.size() > kMostMasks && number > runs_.back().low) return;
    const auto at = std::lower_bound(runs_.begin(), runs_.end(), number,
                                     [](const Run& run, double value) { return run.low < value; });
    if (at != runs_.end() && at->low == number) {
      ++at->count;
      return;
    }
    runs_.insert(at, {number, number, 1});
    if (runs_.size() > kMostMasks + 1) runs_.pop_back();
  }
  const std::vector<Run>& runs() const { return runs_; }

 private:
  std::vector<Run> runs_;
};

template <typename Use>
void for_each_number(core::Graph& graph, core::ValueId constant, Use use) {
  if (const auto numbers = graph.numbers(constant)) {
    std::for_each(numbers->begin(), numbers->end(), use);
    return;
  }
  const stream::RecipeRef& recipe = graph.at(constant).constant;
  if (graph.at(constant).dtype != stream::DType::kFloat32) return;
  const auto tile = graph.budget.take(kTile, "a tile of a constant");
  stream::RecipeReader reader(recipe, graph.budget);
  const uint64_t step = std::clamp<uint64_t>(reader.good_count(kTile), 1, kTile / sizeof(float));
  for (uint64_t done = 0, part; done < recipe->elements(); done += part) {
    part = std::min(step, recipe->elements() - done);
    reader.read(done, part, tile.data());
    const auto* lanes = reinterpret_cast<const float*>(tile.data());
    std::for_each(lanes, lanes + part, use);
  }
}

}  // namespace

Unmasked unmasked(const Observed& seen) {
  std::vector<Run> runs, mirrored;
  uint64_t count = 0;
  size_t bins = 0;
  for (size_t i = 0; i < seen.counts.size(); ++i) {
    if (seen.counts[i] == 0) continue;
    const double low = seen.low + static_cast<double>(i) * seen.width;
    const Run run{std::clamp(low, seen.least, seen.most), std::clamp(low + seen.width, seen.least, seen.most),
                  seen.counts[i]};
    if (runs.size() <= kMostMasks) runs.push_back(run);
    mirrored.push_back({-run.high, -run.low, run.count});
    count += run.count;
    ++bins;
  }
  std::reverse(mirrored.begin(), mirrored.end());
  mirrored.resize(std::min(mirrored.size(), kMostMasks + 1));
  Unmasked out{.least = least_but_masks(runs, seen.most), .most = least_but_masks(mirrored, -seen.least)};
  if (out.most) out.most = -*out.most;
  out.is_empty = seen.most <= kMask && bins <= kMostMasks && count >= kLeastCount * bins;
  return out;
}

ConstantNumbers constant_numbers(core::Graph& graph, core::ValueId constant) {
  Lowest lowest, mirrored;
  std::optional<Interval> all;
  for_each_number(graph, constant, [&](double number) {
    if (!std::isfinite(number)) return;
    lowest.add(number);
    mirrored.add(-number);
    all = all ? Interval{std::min(all->low, number), std::max(all->high, number)} : Interval{number, number};
  });
  if (!all) return {};
  ConstantNumbers out{.range = unite(*all, {}),
                      .unmasked = {.least = least_but_masks(lowest.runs(), all->high),
                                   .most = least_but_masks(mirrored.runs(), -all->low)}};
  if (out.unmasked.most) out.unmasked.most = -*out.unmasked.most;
  return out;
}

}  // namespace lowtide::layout
