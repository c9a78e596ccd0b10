// SPDX-License-Identifier: Apache-2.0
// Chains of reshapes, and reshapes that move behind ops that do not depend on the leading axes (lead_axes.cc).
#include "tests/layout/fuse/fusing.h"

namespace lowtide::layout {
namespace {

struct ReshapeRules : Fusing {
  Val x = input({2, 3, 5});
  Val flat = b.reshape(x, {6, 5});
  const std::vector<int> last{-1};
  Val centred(Val v) { return b.sub(v, b.mean(v, last, true)); }
};

TEST_F(ReshapeRules, InverseReshapesCancel) {
  Val t = b.tanh(x);
  // By hand: the builder would leave it out.
  Val there = b.op(Kind::kReshape, {t, b.i32({6, 5})});
  EXPECT_EQ(fused(b.op(Kind::kReshape, {there, b.i32({2, 3, 5})})), (Kinds{{Kind::kTanh, 1}}));
}

TEST_F(ReshapeRules, AnInnerReshapeWithAnotherUserStays) {
  Val outer = b.op(Kind::kReshape, {flat, b.i32({3, 10})});
  EXPECT_EQ(fused({outer, flat}), (Kinds{{Kind::kReshape, 2}}));
  EXPECT_EQ(only(Kind::kReshape).inputs[0], x.id);
}

TEST_F(ReshapeRules, ANormBetweenReshapesKeepsItsRank) {
  EXPECT_EQ(fused(b.reshape(b.mul(centred(flat), counted({5})), {2, 3, 5})),
            (Kinds{{Kind::kMean, 1}, {Kind::kSub, 1}, {Kind::kMul, 1}}));
  EXPECT_EQ(*graph.ints(only(Kind::kMean).inputs[1]), (std::vector<int64_t>{2}));
  EXPECT_EQ(graph.at(only(Kind::kMean).outputs[0]).shape, (Shape{2, 3, 1}));
}

TEST_F(ReshapeRules, AnotherUserKeepsTheReshape) {
  Val y = centred(flat);
  EXPECT_EQ(fused({b.reshape(y, {2, 3, 5}), y})[Kind::kReshape], 2);
  Val z = centred(flat);
  EXPECT_EQ(fused({b.reshape(z, {2, 3, 5}), b.transpose(z, {1, 0})})[Kind::kReshape], 2);
}

TEST_F(ReshapeRules, OpsThatDependOnTheLeadingAxesKeepTheReshape) {
  EXPECT_EQ(fused(b.reshape(b.add(flat, input({6, 5})), {2, 3, 5}))[Kind::kReshape], 2);
  EXPECT_EQ(fused(b.reshape(b.mul(flat, counted({6, 1})), {2, 3, 5}))[Kind::kReshape], 2);
  EXPECT_EQ(fused(b.reshape(b.cumsum(flat, 0, false, false), {2, 3, 5}))[Kind::kReshape], 2);
  Val dense = b.fully_connected(flat, ones({4, 5}), {}, false);
  EXPECT_EQ(fused(b.reshape(b.tanh(dense), {2, 3, 4}))[Kind::kReshape], 2);
}

TEST_F(ReshapeRules, AFullyConnectedLayerThatKeepsItsRankDropsTheReshape) {
  EXPECT_EQ(fused(b.reshape(b.softmax(linear(flat, 4)), {3, 2, 4})),
            (Kinds{{Kind::kFullyConnected, 1}, {Kind::kSoftmax, 1}, {Kind::kReshape, 1}}));
}

}  // namespace
}  // namespace lowtide::layout
