// SPDX-License-Identifier: Apache-2.0
#include "layout/quantize/ranges.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

namespace lowtide::layout {
namespace {

// Candidates for each end in one round of the search, and by how much the next round is finer.
constexpr int kCandidates = 32;
constexpr int kRounds = 4;
// The last search: each end is moved by up to kNear steps either way.
constexpr int kNear = 2;
constexpr int kNearCandidates = 16;

Interval with_zero(double low, double high, bool symmetric) {
  Interval out{std::min(low, 0.0), std::max(high, 0.0)};
  if (symmetric) {
    out.high = std::max(-out.low, out.high);
    out.low = -out.high;
  }
  return out;
}

// The squared errors of intervals, each in a time that does not depend on how many bins there are but for finding
// two of them. A bin's values are taken to be at its middle.
class Errors {
 public:
  // Magnitudes are divided by the largest, so that squares of any finite values are finite.
  Errors(const Observed& seen, double unit) : low_(seen.low / unit), width_(seen.width / unit) {
    const size_t bins = seen.counts.size();
    sums_.resize(bins + 1);
    for (size_t i = 0; i < bins; ++i) {
      const auto n = static_cast<double>(seen.counts[i]);
      const double x = low_ + (static_cast<double>(i) + 0.5) * width_;
      sums_[i + 1] = {sums_[i].count + n, sums_[i].first + n * x, sums_[i].second + n * x * x};
    }
  }

  double of(const Interval& interval, double steps) const {
    const double step = (interval.high - interval.low) / steps;
    const Sums below = before(interval.low), inside = before(interval.high);
    const Sums above = sums_.back() - inside;
    // A value nearer to 0 than half a step becomes 0, and its error is the value itself. This matters behind a RELU,
    // where most values are exactly 0. Errors of the others are uniform in a step: step^2 / 12.
    const Sums to_zero = before(std::min(step / 2, interval.high)) - before(std::max(-step / 2, interval.low));
    const double rounded = inside.count - below.count - to_zero.count;
    return clipped(below, interval.low) + clipped(above, interval.high) + to_zero.second + rounded * step * step / 12;
  }

 private:
  struct Sums {
    double count = 0, first = 0, second = 0;  // of 1, x, x^2
    Sums operator-(const Sums& other) const {
      return {count - other.count, first - other.first, second - other.second};
    }
  };

  // Of the bins whose middle is less than x. Bins much narrower than the interval have no width here.
  Sums before(double x) const {
    const double place = std::ceil((x - low_) / width_ - 0.5);
    if (std::isnan(place)) return sums_.front();
    return sums_[static_cast<size_t>(std::clamp(place, 0.0, static_cast<double>(sums_.size() - 1)))];
  }

  // Sum of (x - end)^2; rounding may leave a little less than 0.
  static double clipped(const Sums& of, double end) {
    return std::max(0.0, of.second - 2 * end * of.first + end * end * of.count);
  }

  double low_, width_;
  std::vector<Sums> sums_;
};

// The squared error of the grid that is written for the interval: its zero point is an integer. For each bin.
double rounded_error(const Observed& seen, double unit, const Interval& interval, double steps) {
  const double step = (interval.high - interval.low) / steps;
  const double zero = std::nearbyint(-interval.low / step);
  double sum = 0;
  for (size_t i = 0; i < seen.counts.size(); ++i) {
    if (seen.counts[i] == 0) continue;
    const double x = seen.low / unit + (static_cast<double>(i) + 0.5) * (seen.width / unit);
    const double error = std::clamp(std::nearbyint(x / step), -zero, steps - zero) * step - x;
    sum += static_cast<double>(seen.counts[i]) * error * error;
  }
  return sum;
}

// Moves the ends by parts of a step. Errors are not uniform where values come in a few places, such as at the end of a
// Clip; then it matters where steps are. Has no sense where steps are finer than bins.
Interval refined(const Observed& seen, double unit, const Interval& widest, Interval best, double steps,
                 bool symmetric) {
  const double step = (best.high - best.low) / steps, move = step * kNear / kNearCandidates;
  if (step < seen.width / unit) return best;
  const Interval center = best;
  double least = rounded_error(seen, unit, best, steps);
  for (int i = -kNearCandidates; i <= kNearCandidates; ++i) {
    const double low = center.low == 0 ? 0 : std::clamp(center.low + i * move, widest.low, 0.0);
    for (int j = -kNearCandidates; j <= kNearCandidates; ++j) {
      const double high = center.high == 0 ? 0 : std::clamp(center.high + j * move, 0.0, widest.high);
      const Interval candidate = symmetric ? Interval{-high, high} : Interval{low, high};
      if (candidate.low == candidate.high) continue;
      const double error = rounded_error(seen, unit, candidate, steps);
      if (error < least) {
        least = error;
        best = candidate;
      }
    }
    if (center.low == 0 || symmetric) break;  // all other rows are the same
  }
  return best;
}

// A grid over both ends, then finer grids around the best pair. Wider intervals are tried first and win ties.
Interval least_error(const Observed& seen, const Interval& all, double steps, bool symmetric) {
  const double unit = std::max(-all.low, all.high);
  const Errors errors(seen, unit);
  const Interval widest{all.low / unit, all.high / unit};
  Interval best = widest, center = widest;
  double least = errors.of(best, steps);
  double low_reach = -widest.low, high_reach = widest.high;  // how far inwards the next round looks
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i <= kCandidates; ++i) {
      const double low = std::min(0.0, center.low + low_reach * i / kCandidates);
      for (int j = 0; j <= kCandidates; ++j) {
        const double high = std::max(0.0, center.high - high_reach * j / kCandidates);
        const Interval candidate = symmetric ? Interval{-high, high} : Interval{low, high};
        if (candidate.low == candidate.high) continue;
        const double error = errors.of(candidate, steps);
        if (error < least) {
          least = error;
          best = candidate;
        }
      }
      if (low_reach == 0 || symmetric) break;  // all other rows are the same
    }
    // The next round covers one candidate on either side of the best.
    const double low_side = low_reach / kCandidates, high_side = high_reach / kCandidates;
    center = {std::max(widest.low, best.low - low_side), std::min(widest.high, best.high + high_side)};
    low_reach = std::min(2 * low_side, -center.low);
    high_reach = std::min(2 * high_side, center.high);
  }
  best = refined(seen, unit, widest, best, steps, symmetric);
  return {best.low * unit, best.high * unit};
}

// The ends of the middle `percent`, at edges of bins.
Interval percentile(const Observed& seen, double percent) {
  double total = 0;
  for (const uint64_t n : seen.counts) total += static_cast<double>(n);
  const double cut = total * (1 - percent / 100) / 2;
  size_t first = 0, last = seen.counts.size();
  for (double left = 0; first + 1 < last; ++first) {
    left += static_cast<double>(seen.counts[first]);
    if (left > cut) break;
  }
  for (double right = 0; last > first + 1; --last) {
    right += static_cast<double>(seen.counts[last - 1]);
    if (right > cut) break;
  }
  return {std::max(seen.least, seen.low + static_cast<double>(first) * seen.width),
          std::min(seen.most, seen.low + static_cast<double>(last) * seen.width)};
}

}  // namespace

Interval choose_range(const Observed& seen, RangeChoice choice, int64_t steps, bool symmetric) {
  const Interval all = with_zero(seen.least, seen.most, symmetric);
  // Grids have no steps that are so fine, and quotients of such numbers may be infinite.
  if (all.high - all.low < std::numeric_limits<float>::min()) return all;
  switch (choice.method) {
    case RangeChoice::Method::kMinMax:
      return all;
    case RangeChoice::Method::kPercentile: {
      const Interval middle = percentile(seen, choice.percent);
      return with_zero(middle.low, middle.high, symmetric);
    }
    case RangeChoice::Method::kLeastError:
      return least_error(seen, all, static_cast<double>(steps), symmetric);
  }
  return all;
}

double mean_square(const Observed& seen) {
  double count = 0, sum = 0;
  for (size_t i = 0; i < seen.counts.size(); ++i) {
    const auto n = static_cast<double>(seen.counts[i]);
    const double x = std::clamp(seen.low + (static_cast<double>(i) + 0.5) * seen.width, seen.least, seen.most);
    count += n, sum += n * x * x;
  }
  return count > 0 ? sum / count : 0;
}

Interval unite(const Interval& a, const Interval& b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }

}  // namespace lowtide::layout
