// SPDX-License-Identifier: Apache-2.0
#include "tests/layout/fuse/fusing.h"

namespace lowtide::layout {
namespace {

using AffineRules = Fusing;

TEST_F(AffineRules, FoldIntoTheFollowingWeights) {
  Val x = b.add(b.mul(input({2, 5, 3}), counted({3})), counted({1, 1, 3}));
  EXPECT_EQ(fused(b.fully_connected(x, ones({2, 3}), counted({2}), true)), (Kinds{{Kind::kFullyConnected, 1}}));
  const core::Op& op = only(Kind::kFullyConnected);
  EXPECT_EQ(numbers(op.inputs[1]), (std::vector<double>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(numbers(op.inputs[2]), (std::vector<double>{3, 4}));
}

TEST_F(AffineRules, PassReshapesThatKeepTheLastAxisAndFoldIntoSeveralOps) {
  Val x = b.mul(input({2, 5, 3}), counted({3}));
  Val y = linear(x, 4), z = b.fully_connected(b.reshape(x, {10, 3}), ones({6, 3}), {}, false);
  EXPECT_EQ(fused({y, z}), (Kinds{{Kind::kFullyConnected, 2}, {Kind::kReshape, 1}}));
  Val w = b.mul(input({2, 5, 3}), counted({3}));
  EXPECT_EQ(fused(linear(b.reshape(w, {2, 15}), 4)),
            (Kinds{{Kind::kMul, 1}, {Kind::kReshape, 1}, {Kind::kFullyConnected, 1}}));
}

TEST_F(AffineRules, StayIfOneUserCannotFoldThem) {
  Val x = b.mul(input({2, 5, 3}), counted({3}));
  EXPECT_EQ(fused({linear(x, 4), b.softmax(x)}),
            (Kinds{{Kind::kMul, 1}, {Kind::kFullyConnected, 1}, {Kind::kSoftmax, 1}}));
  EXPECT_EQ(fused({linear(x, 4), x}), (Kinds{{Kind::kMul, 1}, {Kind::kFullyConnected, 1}}));
}

TEST_F(AffineRules, AnOffsetDoesNotMoveAcrossPadding) {
  Val x = input({2, 5, 7, 3});
  core::Conv2dOptions same{.padding = core::Padding::kSame};
  EXPECT_EQ(fused(conv(b.add(x, counted({3})), 4, 3, same)), (Kinds{{Kind::kAdd, 1}, {Kind::kConv2d, 1}}));
  EXPECT_EQ(fused(conv(b.mul(x, counted({3})), 4, 3, same)), (Kinds{{Kind::kConv2d, 1}}));
  EXPECT_EQ(fused(conv(b.add(x, counted({3})), 4, 3)), (Kinds{{Kind::kConv2d, 1}}));
  EXPECT_EQ(fused(conv(b.add(x, counted({3})), 4, 1, same)), (Kinds{{Kind::kConv2d, 1}}));
}

TEST_F(AffineRules, GroupedWeightsDoNotFoldThem) {
  Val x = b.mul(input({1, 5, 7, 4}), counted({4}));
  EXPECT_EQ(fused(b.conv_2d(x, ones({6, 1, 1, 2}), {}, {})), (Kinds{{Kind::kMul, 1}, {Kind::kConv2d, 1}}));
}

TEST_F(AffineRules, FusedActivationsAndOtherAxesStay) {
  Val x = input({2, 3, 3});
  EXPECT_EQ(fused(linear(b.relu(b.add(x, counted({3}))), 4)), (Kinds{{Kind::kAdd, 1}, {Kind::kFullyConnected, 1}}));
  EXPECT_EQ(fused(linear(b.mul(x, counted({3, 1})), 4)), (Kinds{{Kind::kMul, 1}, {Kind::kFullyConnected, 1}}));
  EXPECT_EQ(fused(linear(b.mul(input({1, 3}), counted({2, 1})), 4)),
            (Kinds{{Kind::kMul, 1}, {Kind::kFullyConnected, 1}}));
}

}  // namespace
}  // namespace lowtide::layout
