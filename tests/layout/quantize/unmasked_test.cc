// SPDX-License-Identifier: Apache-2.0
#include "layout/quantize/unmasked.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace lowtide::layout {
namespace {

// Of numbers that are multiples of the width, and how often each was seen.
Unmasked unmasked_of(const std::map<int, uint64_t>& seen, double width) {
  const int first = seen.begin()->first, last = seen.rbegin()->first;
  std::vector<uint64_t> counts(static_cast<size_t>(last - first) + 1);
  for (const auto& [bin, count] : seen) counts[static_cast<size_t>(bin - first)] = count;
  return unmasked(
      {.least = first * width, .most = last * width, .low = first * width, .width = width, .counts = counts});
}

TEST(Unmasked, MasksAreFewNumbersFarBelowAllOthers) {
  EXPECT_EQ(unmasked_of({{-2000, 9}, {-3, 5}, {0, 50}, {4, 7}}, 4).least, -12);
  // Each of them is farther from the next than all that is above.
  EXPECT_EQ(unmasked_of({{-2000, 9}, {-1600, 9}, {-1000, 9}, {-3, 5}, {4, 7}}, 4).least, -12);
  EXPECT_EQ(unmasked_of({{-2000, 9}, {-3, 5}, {4, 7}}, 4).most, std::nullopt);
  EXPECT_EQ(unmasked_of({{-4, 7}, {3, 5}, {2000, 9}}, 4).most, 16);
}

TEST(Unmasked, DistancesAreNone) {
  std::map<int, uint64_t> clusters{{-40, 10}, {-12, 10}};
  for (int i = 0; i < 20; ++i) clusters[-600 + i] = 9;
  EXPECT_EQ(unmasked_of(clusters, 1).least, std::nullopt);
  EXPECT_EQ(unmasked_of({{-600, 1}, {-12, 10}, {-8, 3}}, 1).least, std::nullopt);
  EXPECT_EQ(unmasked_of({{-600, 9}, {-300, 9}, {-8, 3}, {300, 1}}, 1).least, std::nullopt);
  EXPECT_EQ(unmasked_of({{-60, 9}, {-8, 3}}, 1).least, std::nullopt);
}

TEST(Unmasked, CoarseBinsDoNotTellTheLeast) {
  std::vector<uint64_t> counts(1025);
  counts[47] = counts[1023] = counts[1024] = 9;
  Observed seen{.least = -1e6, .most = 11, .low = -1024 * 1024, .width = 1024, .counts = counts};
  EXPECT_EQ(unmasked(seen).least, kMask);
  seen.inner_least = -11;
  EXPECT_EQ(unmasked(seen).least, -11);
  EXPECT_EQ(unmasked_of({{-2000, 9}, {0, 50}}, 1024).least, 0);
}

TEST(Unmasked, MasksAlone) {
  EXPECT_TRUE(unmasked_of({{-2000, 9}}, 4).is_empty);
  EXPECT_TRUE(unmasked_of({{-2000, 9}, {-1000, 9}}, 4).is_empty);
  EXPECT_FALSE(unmasked_of({{-2000, 9}, {0, 9}}, 4).is_empty);
  EXPECT_FALSE(unmasked_of({{-12, 9}}, 4).is_empty);
  EXPECT_FALSE(unmasked_of({{-2000, 9}}, 4).is_empty_above);
  EXPECT_TRUE(unmasked_of({{1000, 9}, {2000, 9}}, 4).is_empty_above);
  EXPECT_FALSE(unmasked_of({{0, 9}, {2000, 9}}, 4).is_empty_above);
}

}  // namespace
}  // namespace lowtide::layout
