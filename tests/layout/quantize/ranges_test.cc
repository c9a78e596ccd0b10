// SPDX-License-Identifier: Apache-2.0
// The choice of a range from a histogram. Errors are judged by rounding the values themselves.
#include "layout/quantize/ranges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace lowtide::layout {
namespace {

using Method = RangeChoice::Method;

struct Sample {
  std::vector<double> values;
  std::vector<uint64_t> counts;
  Observed seen;

  Sample(std::vector<double> of, double width) : values(std::move(of)) {
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    const double first = std::floor(*least / width);
    counts.resize(static_cast<size_t>(std::floor(*most / width) - first) + 1);
    for (const double x : values) ++counts[static_cast<size_t>(std::floor(x / width) - first)];
    seen = {*least, *most, first * width, width, counts};
  }

  // Of the values, rounded to integers of `steps` + 1 and back.
  double error(const Interval& interval, double steps) const {
    const double step = (interval.high - interval.low) / steps, zero = std::nearbyint(-interval.low / step);
    double sum = 0;
    for (const double x : values) {
      const double q = std::clamp(std::nearbyint(x / step) + zero, 0.0, steps);
      sum += std::pow((q - zero) * step - x, 2);
    }
    return sum;
  }
};

std::vector<double> normal(size_t n, double deviation, double lowest) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> draw(0, deviation);
  std::vector<double> out(n);
  for (double& x : out) x = std::max(lowest, draw(random));
  return out;
}

TEST(ChooseRange, AllThatWasSeenAndZero) {
  const Sample above({2, 3, 5}, 0.25), below({-5, -3}, 0.25), both({-1.5, 0, 4}, 0.25);
  EXPECT_EQ(choose_range(above.seen, {Method::kMinMax, 100}, 255, false), (Interval{0, 5}));
  EXPECT_EQ(choose_range(below.seen, {Method::kMinMax, 100}, 255, false), (Interval{-5, 0}));
  EXPECT_EQ(choose_range(both.seen, {Method::kMinMax, 100}, 255, false), (Interval{-1.5, 4}));
  EXPECT_EQ(choose_range(both.seen, {Method::kMinMax, 100}, 65534, true), (Interval{-4, 4}));
}

// As a file may say that was edited.
TEST(ChooseRange, BinsOfAnotherMagnitudeThanTheValues) {
  const std::vector<uint64_t> counts{1, 2, 1};
  constexpr double kTiny = std::numeric_limits<double>::denorm_min(), kHuge = std::numeric_limits<float>::max();
  for (const bool symmetric : {false, true}) {
    const double low = symmetric ? -kHuge : -1;
    EXPECT_EQ(choose_range({-1, kHuge, 0, kTiny, counts}, {Method::kLeastError, 100}, 255, symmetric),
              (Interval{low, kHuge}));
    const Interval none =
        choose_range({0, kTiny, -kHuge, kHuge / 2, counts}, {Method::kLeastError, 100}, 255, symmetric);
    EXPECT_EQ(none, (Interval{symmetric ? -kTiny : 0, kTiny}));
  }
}

TEST(ChooseRange, TensorOfZeros) {
  const Sample zeros({0, 0, 0}, 0.25);
  for (const Method method : {Method::kMinMax, Method::kPercentile, Method::kLeastError})
    EXPECT_EQ(choose_range(zeros.seen, {method, 99}, 255, false), (Interval{0, 0}));
}

TEST(ChooseRange, PercentileCutsBothEnds) {
  std::vector<double> values(1000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i) - 400;  // -400 to 599
  const Sample sample(values, 1);
  EXPECT_EQ(choose_range(sample.seen, {Method::kPercentile, 100}, 255, false), (Interval{-400, 599}));
  EXPECT_EQ(choose_range(sample.seen, {Method::kPercentile, 98}, 255, false), (Interval{-390, 590}));
}

TEST(ChooseRange, PercentileKeepsOneBin) {
  const Sample one({3, 3, 3}, 0.5);
  EXPECT_EQ(choose_range(one.seen, {Method::kPercentile, 1}, 255, false), (Interval{0, 3}));
}

// Against every pair on a finer raster, by the values themselves.
TEST(ChooseRange, LeastErrorIsNearTheBestPair) {
  for (const double lowest : {-1e9, -0.4, 0.0}) {  // 0.0: as behind a RELU
    auto values = normal(4000, 1, lowest);
    values.push_back(9);  // an outlier
    values.push_back(std::max(lowest, -7.0));
    const Sample sample(values, 1.0 / 128);
    const Interval found = choose_range(sample.seen, {Method::kLeastError, 100}, 15, false);
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i <= 90; ++i) {
      for (int j = 1; j <= 90; ++j)
        best = std::min(best, sample.error({sample.seen.least * i / 90, sample.seen.most * j / 90}, 15));
    }
    EXPECT_LE(sample.error(found, 15), 1.1 * best) << lowest;
    EXPECT_LT(sample.error(found, 15), 0.9 * sample.error({std::min(0.0, sample.seen.least), 9}, 15)) << lowest;
    EXPECT_GE(found.low, std::min(0.0, sample.seen.least));
    EXPECT_LE(found.high, sample.seen.most);
  }
}

TEST(ChooseRange, LeastErrorSymmetric) {
  auto values = normal(4000, 1, -1e9);
  values.push_back(-30);
  const Sample sample(values, 1.0 / 64);
  const Interval found = choose_range(sample.seen, {Method::kLeastError, 100}, 14, true);
  EXPECT_EQ(found.low, -found.high);
  EXPECT_LT(found.high, 30);
  EXPECT_GT(found.high, 1);
}

TEST(ChooseRange, LeastErrorOfOneSign) {
  auto values = normal(500, 1, -1e9);
  for (double& x : values) x = -std::abs(x) - 1;
  const Sample sample(values, 1.0 / 64);
  const Interval found = choose_range(sample.seen, {Method::kLeastError, 100}, 255, false);
  EXPECT_EQ(found.high, 0);
  EXPECT_LT(found.low, -1);
}

TEST(ChooseRange, MagnitudesWhoseSquaresAreNotFinite) {
  for (const double unit : {1e300, 1e-300}) {
    const Sample sample({-2 * unit, unit, 3 * unit}, unit / 64);
    const Interval found = choose_range(sample.seen, {Method::kLeastError, 100}, 255, false);
    EXPECT_LE(found.low, -1.9 * unit);
    EXPECT_GE(found.high, 2.9 * unit);
    EXPECT_GE(found.low, -2 * unit);
    EXPECT_LE(found.high, 3 * unit);
  }
}

TEST(Unite, HasBoth) { EXPECT_EQ(unite({-1, 2}, {-3, 1}), (Interval{-3, 2})); }

}  // namespace
}  // namespace lowtide::layout
