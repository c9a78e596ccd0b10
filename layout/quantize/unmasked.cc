// SPDX-License-Identifier: Apache-2.0
#include "layout/quantize/unmasked.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "stream/recipe/recipe_reader.h"

namespace lowtide::layout {
namespace {

// Models add two or three masks, whose sums are masks too.
constexpr size_t kMostMasks = 8;
// Each must have been seen more than once, or be so much farther away: samples that lie apart from all others are no
// masks.
constexpr uint64_t kLeastCount = 2;
constexpr double kClearGap = 1000;
constexpr double kCoarse = 8;        // a bin of this width does not say what its least number is
constexpr uint64_t kTile = 1 << 16;  // bytes

// `count` numbers from `low` to `high`.
struct Run {
  double low, high;
  uint64_t count;
};

// Of at most kMostMasks + 1 runs, ascending, which are the lowest; `most`: the largest number of all, `inner`: the
// least one above kMask, if it is known.
std::optional<double> least_but_masks(const std::vector<Run>& lowest, double most, std::optional<double> inner) {
  std::optional<double> least;
  uint64_t count = 0;
  for (size_t i = 0; i + 1 < lowest.size() && lowest[i].high <= kMask; ++i) {
    count += lowest[i].count;
    const Run& next = lowest[i + 1];
    const double gap = next.low - lowest[i].high;
    const double others = most - next.low;
    const bool is_clear = gap >= kClearGap * others || count >= kLeastCount * (i + 1);
    if (gap < kLeastGap || gap < others || !is_clear) continue;
    least = next.high - next.low < kCoarse ? next.low : std::max(next.low, inner.value_or(kMask));
  }
  return least;
}

// A number in the gap between the masks at the low end and all others, of which bin i counts those from low + i * width
// on; `high`: the largest. nullopt: there is no such gap.
std::optional<double> gap_in(const std::vector<uint64_t>& counts, double low, double width, double high) {
  std::optional<double> out;
  std::optional<size_t> last;  // bin with a number
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    const double begin = low + static_cast<double>(i) * width;
    if (last) {
      const double end = low + static_cast<double>(*last + 1) * width;
      if (end <= kMask && begin - end >= std::max(kLeastGap, high - begin)) out = end;
    }
    last = i;
  }
  return out;
}

// The least number of a constant above a gap, whose rows are its last axis.
class AboveGap {
 public:
  AboveGap(double gap, uint64_t row) : gap_(gap), row_(row) {}
  void add(double number) {
    if (!(number <= gap_)) {  // or NaN, which no set holds
      least_ = std::min(least_, number);
      has_others_ = true;
    } else if (masks_.size() <= kMostMasks) {
      masks_.insert(number);
    }
    if (++at_ % row_ == 0) has_rows_ = has_rows_ && std::exchange(has_others_, false);
  }
  // Rows of masks alone may be distances, unless the masks are few.
  std::optional<double> least() const {
    return has_rows_ || masks_.size() <= kMostMasks ? std::optional(least_) : std::nullopt;
  }

 private:
  const double gap_;
  const uint64_t row_;
  double least_ = std::numeric_limits<double>::infinity();
  std::set<double> masks_;
  uint64_t at_ = 0;
  bool has_others_ = false, has_rows_ = true;
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
  std::optional<double> mirrored_inner;
  if (seen.inner_most) mirrored_inner = -*seen.inner_most;
  Unmasked out{.least = least_but_masks(runs, seen.most, seen.inner_least),
               .most = least_but_masks(mirrored, -seen.least, mirrored_inner)};
  if (out.most) out.most = -*out.most;
  const bool is_few = bins <= kMostMasks && count >= kLeastCount * bins;
  out.is_empty = is_few && seen.most <= kMask;
  out.is_empty_above = is_few && seen.least >= -kMask;
  return out;
}

ConstantNumbers constant_numbers(core::Graph& graph, core::ValueId constant) {
  std::optional<Interval> all, finite;
  bool has_nan = false;
  for_each_number(graph, constant, [&](double number) {
    has_nan = has_nan || std::isnan(number);
    const Interval own{number, number};
    all = all ? unite(*all, own) : own;
    if (std::isfinite(number)) finite = finite ? unite(*finite, own) : own;
  });
  if (has_nan) all.reset();
  ConstantNumbers out{.range = std::nullopt, .all = all, .unmasked = {}};
  if (!finite) return out;
  out.range = unite(*finite, {});
  if (finite->low > kMask && finite->high < -kMask) return out;
  constexpr size_t kBins = 2048;
  const double width = (finite->high - finite->low) / (kBins - 1);
  if (!(width > 0)) return out;
  std::vector<uint64_t> counts(kBins);
  for_each_number(graph, constant, [&](double number) {
    if (std::isfinite(number)) ++counts[static_cast<size_t>((number - finite->low) / width)];
  });
  const auto low_gap = gap_in(counts, finite->low, width, finite->high);
  std::reverse(counts.begin(), counts.end());
  const auto high_gap = gap_in(counts, -(finite->low + kBins * width), width, -finite->low);
  if (!low_gap && !high_gap) return out;
  const core::Shape& shape = graph.at(constant).shape;
  const uint64_t row = shape.empty() ? 1 : static_cast<uint64_t>(shape.back());
  AboveGap low(low_gap.value_or(0), row), high(high_gap.value_or(0), row);
  for_each_number(graph, constant, [&](double number) {
    low.add(number);
    high.add(-number);
  });
  if (low_gap) out.unmasked.least = low.least();
  if (high_gap && high.least()) out.unmasked.most = -*high.least();
  return out;
}

const ConstantNumbers& KnownConstants::of(core::ValueId constant) {
  const auto [it, is_new] = found_.try_emplace(graph_.at(constant).constant);
  if (is_new) it->second = constant_numbers(graph_, constant);
  return it->second;
}

}  // namespace lowtide::layout
