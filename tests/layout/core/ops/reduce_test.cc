// SPDX-License-Identifier: Apache-2.0
// Reductions of constants are constants.
#include "tests/layout/fuse/fusing.h"

namespace lowtide::layout {
namespace {

struct ReduceOps : Fusing {};

TEST_F(ReduceOps, MeansOfConstantsAreFolded) {
  const std::vector<int> last{-1}, all{0, 1};
  EXPECT_EQ(numbers(b.mean(counted({2, 5}), last, true).id), (std::vector<double>{2, 7}));
  EXPECT_EQ(numbers(b.mean(counted({2, 5}), all, false).id), std::vector<double>{4.5});
}
TEST_F(ReduceOps, StandardisedWeightsAreConstantsOfAnySize) {
  Val weights = b.filled(1, DType::kFloat32, {3000, 400});
  EXPECT_TRUE(graph.at(b.sub(weights, b.mean(weights, std::vector<int>{1}, true)).id).is_constant());
}
TEST_F(ReduceOps, MeansOfIntegersAreTheKernels) {
  Val mean = b.mean(b.filled(1, DType::kInt32, {2, 5}), std::vector<int>{1}, true);
  EXPECT_FALSE(graph.at(mean.id).is_constant());
}

}  // namespace
}  // namespace lowtide::layout
