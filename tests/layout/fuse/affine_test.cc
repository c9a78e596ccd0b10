// SPDX-License-Identifier: Apache-2.0
#include <cmath>

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

TEST_F(AffineRules, QuotientsDifferencesAndSingleNumbersAreFoldedToo) {
  Val halves = b.constant(stream::recipe::floats(std::vector<float>{2, 4, 8}, {3}));
  Val x = b.sub(b.div(input({2, 5, 3}), halves), counted({3}));
  EXPECT_EQ(fused(b.fully_connected(x, ones({2, 3}), counted({2}), true)), (Kinds{{Kind::kFullyConnected, 1}}));
  const core::Op& op = only(Kind::kFullyConnected);
  EXPECT_EQ(numbers(op.inputs[1]), (std::vector<double>{.5, .25, .125, .5, .25, .125}));
  EXPECT_EQ(numbers(op.inputs[2]), (std::vector<double>{-3, -2}));
  Val y = b.sub(b.mul(input({2, 5, 3}), 4), 1);
  EXPECT_EQ(fused(b.fully_connected(y, ones({2, 3}), {}, true)), (Kinds{{Kind::kFullyConnected, 1}}));
  EXPECT_EQ(numbers(only(Kind::kFullyConnected).inputs[2]), (std::vector<double>{-3, -3}));
  Val z = b.sub(counted({3}), input({2, 5, 3}));
  EXPECT_EQ(fused(linear(z, 4)), (Kinds{{Kind::kSub, 1}, {Kind::kFullyConnected, 1}}));
}

TEST_F(AffineRules, NumbersThatDoNotFitStay) {
  for (const float divisor : {0.0f, 1e-42f, HUGE_VALF, NAN}) {
    Val x = b.div(input({2, 3}), b.constant(stream::recipe::floats(std::vector<float>{divisor, 2, 3}, {3})));
    EXPECT_EQ(fused(linear(x, 4))[Kind::kDiv], 1) << divisor;
  }
  EXPECT_EQ(fused(linear(b.add(input({2, 3}), 64), 4))[Kind::kAdd], 0);
  EXPECT_EQ(fused(linear(b.add(input({2, 3}), 65), 4))[Kind::kAdd], 1);
}

TEST_F(AffineRules, ChannelsAreFollowedThroughTransposes) {
  const auto behind = [&](Val x) { return conv(b.transpose(x, kToNhwc), 4, 3); };
  Val x = input({2, 3, 5, 7});
  EXPECT_EQ(fused(behind(b.add(b.mul(x, counted({3, 1, 1})), counted({3, 1, 1})))),
            (Kinds{{Kind::kTranspose, 1}, {Kind::kConv2d, 1}}));
  EXPECT_EQ(fused(behind(b.mul(x, counted({5, 1}))))[Kind::kMul], 1);
  Val padded = b.mul(b.sub(x, counted({3, 1, 1})), counted({3, 1, 1}));
  EXPECT_EQ(fused(conv(b.transpose(padded, kToNhwc), 4, 3, {.padding = core::Padding::kSame})),
            (Kinds{{Kind::kSub, 1}, {Kind::kTranspose, 1}, {Kind::kConv2d, 1}}));
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
