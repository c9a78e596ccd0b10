// SPDX-License-Identifier: Apache-2.0
#include "bench/uniform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace lowtide::bench {
namespace {

std::vector<float> values(uint64_t seed, std::string_view name, size_t count, float low = -1, float high = 1) {
  std::vector<float> out(count);
  Uniform(seed, name, low, high).fill(0, out);
  return out;
}

TEST(Uniform, APartEqualsTheSamePartOfTheWhole) {
  const std::vector<float> whole = values(7, "conv.weight", 101);
  const Uniform uniform(7, "conv.weight", -1, 1);
  for (size_t first = 0; first <= whole.size(); ++first) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{2}, size_t{5}, whole.size() - first}) {
      if (first + count > whole.size()) continue;
      std::vector<float> part(count);
      uniform.fill(first, part);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(first)))
          << first << " + " << count;
    }
  }
}

TEST(Uniform, PartsBeyondFourGigaElementsDiffer) {
  const Uniform uniform(7, "conv.weight", -1, 1);
  std::vector<float> here(16);
  std::vector<float> there(16);
  uniform.fill(0, here);
  uniform.fill(uint64_t{1} << 32, there);
  EXPECT_NE(here, there);
}

TEST(Uniform, FillsTheRangeEvenly) {
  constexpr size_t kCount = 1 << 20;
  const std::vector<float> x = values(1, "bn.running_var", kCount, 0.5F, 1.5F);
  const auto [least, greatest] = std::minmax_element(x.begin(), x.end());
  EXPECT_GE(*least, 0.5F);
  EXPECT_LT(*least, 0.5001F);
  EXPECT_LE(*greatest, 1.5F);
  EXPECT_GT(*greatest, 1.4999F);
  EXPECT_NEAR(std::accumulate(x.begin(), x.end(), 0.0) / kCount, 1.0, 1e-3);
  std::vector<int> bins(16);
  for (const float v : x) ++bins[std::min<size_t>(15, static_cast<size_t>((v - 0.5F) * 16))];
  for (const int n : bins) EXPECT_NEAR(n, kCount / 16, kCount / 16 / 50);
}

TEST(Uniform, SeedAndNameBothChangeTheValues) {
  EXPECT_EQ(values(1, "a", 32), values(1, "a", 32));
  EXPECT_NE(values(1, "a", 32), values(2, "a", 32));
  EXPECT_NE(values(1, "a", 32), values(1, "b", 32));
}

// Models in other files are compared by their bytes: a change of the generator must be a decision.
TEST(Uniform, ValuesAreFixed) {
  EXPECT_THAT(values(0, "conv0.weight", 4), testing::ElementsAre(0.458247542F, 0.58158648F, 0.69759059F, 0.97317028F));
}

}  // namespace
}  // namespace lowtide::bench
