// SPDX-License-Identifier: Apache-2.0
// Reductions over axes that a reshape has merged use the separate axes; nothing else changes.
#include "tests/layout/fuse/fusing.h"

namespace lowtide::layout {
namespace {

struct MergedAxes : Fusing {
  Val x = b.tanh(input({2, 12, 5, 7}));
  const std::vector<int> last{-1};
  Val centred(Val v) { return b.sub(v, b.mean(v, last, true)); }
  Val back(Val v) { return b.reshape(v, {2, 12, 5, 7}); }
  std::vector<double> axes() { return numbers(only(Kind::kMean).inputs[1]); }
};

TEST_F(MergedAxes, ChannelGroupsKeepTheImageAxes) {
  Kinds kinds = fused(back(centred(b.reshape(x, {2, 4, 105}))));
  EXPECT_EQ(kinds, (Kinds{{Kind::kTanh, 1}, {Kind::kReshape, 2}, {Kind::kMean, 1}, {Kind::kSub, 1}}));
  EXPECT_EQ(graph.at(only(Kind::kSub).outputs[0]).shape, (Shape{2, 4, 3, 5, 7}));
  EXPECT_EQ(axes(), (std::vector<double>{2, 3, 4}));
}
TEST_F(MergedAxes, OneGroupNeedsNoReshape) {
  EXPECT_EQ(fused(back(centred(b.reshape(x, {2, 1, 420})))),
            (Kinds{{Kind::kTanh, 1}, {Kind::kMean, 1}, {Kind::kSub, 1}}));
  EXPECT_EQ(axes(), (std::vector<double>{1, 2, 3}));
}
TEST_F(MergedAxes, AGlobalPoolNeedsNoReshape) {
  EXPECT_EQ(fused(b.mean(b.reshape(x, {2, 12, 35}), last, false)), (Kinds{{Kind::kTanh, 1}, {Kind::kMean, 1}}));
  EXPECT_EQ(axes(), (std::vector<double>{2, 3}));
}
TEST_F(MergedAxes, AnAxisOfOneInTheResultStays) {
  EXPECT_EQ(fused(b.mean(b.reshape(x, {2, 1, 420}), last, false))[Kind::kReshape], 1);
  EXPECT_EQ(axes(), (std::vector<double>{2, 3, 4}));
}
TEST_F(MergedAxes, AMergedValueWithAnotherUserStaysMerged) {
  Val r = centred(b.reshape(x, {2, 4, 105}));
  fused({back(r), r});
  EXPECT_EQ(axes(), std::vector<double>{2});
}
TEST_F(MergedAxes, DimensionsThatDoNotDivideStay) {
  fused(back(centred(b.reshape(x, {10, 84}))));
  EXPECT_EQ(axes(), std::vector<double>{1});
}
TEST_F(MergedAxes, WithoutAReductionNothingChanges) {
  fused(b.softmax(b.relu(b.reshape(x, {2, 4, 105}))));
  EXPECT_EQ(graph.at(only(Kind::kSoftmax).outputs[0]).shape, (Shape{2, 4, 105}));
}

}  // namespace
}  // namespace lowtide::layout
