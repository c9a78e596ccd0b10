// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <limits>

#include "tests/layout/fuse/fusing.h"

namespace lowtide::layout {
namespace {

using ScaleRules = Fusing;

TEST_F(ScaleRules, BatchNormalisationFoldsIntoWeightsAndBias) {
  Val scale = counted({3}), shift = counted({1, 1, 1, 3});
  EXPECT_EQ(fused(b.relu(b.sub(b.mul(conv(input({2, 5, 7, 4}), 3), scale), shift))), (Kinds{{Kind::kConv2d, 1}}));
  const core::Op& op = only(Kind::kConv2d);
  EXPECT_EQ(numbers(op.inputs[1]), (std::vector<double>{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}));
  EXPECT_EQ(numbers(op.inputs[2]), (std::vector<double>{0, -1, -2}));
  EXPECT_EQ(std::get<core::Conv2dOptions>(op.options).activation, core::Activation::kRelu);
}

TEST_F(ScaleRules, ScalesTheBiasThatWasAddedBefore) {
  Val x = b.fully_connected(input({2, 4}), ones({3, 4}), counted({3}), false);
  EXPECT_EQ(fused(b.div(x, 2)), (Kinds{{Kind::kFullyConnected, 1}}));
  EXPECT_EQ(numbers(only(Kind::kFullyConnected).inputs[2]), (std::vector<double>{0, 0.5, 1}));
}

TEST_F(ScaleRules, DepthwiseChannelsAreTheLastAxisOfTheWeights) {
  Val x = b.depthwise_conv_2d(input({1, 5, 7, 2}), ones({1, 1, 1, 4}), {}, {.depth_multiplier = 2});
  EXPECT_EQ(fused(b.mul(x, counted({4}))), (Kinds{{Kind::kDepthwiseConv2d, 1}}));
  EXPECT_EQ(numbers(only(Kind::kDepthwiseConv2d).inputs[1]), (std::vector<double>{0, 1, 2, 3}));
}

// A constant of too many steps is not folded, wherever it stands: nothing throws, and what is left converts.
TEST_F(ScaleRules, LongChainsStayInPart) {
  constexpr int kLength = 300;
  Val numbers = b.constant(stream::recipe::floats(std::array{1.001F, 0.999F, 1.002F}, {3}));
  const auto chain = [&](auto step) {
    Val x = b.fully_connected(input({2, 4}), counted({3, 4}), counted({3}), false);
    for (int i = 0; i < kLength; ++i) x = step(x);
    Kinds kinds = fused(linear(x, 5));
    for (const core::Value& value : graph.values)
      EXPECT_LE(value.is_constant() ? value.constant->steps : 0, stream::kMaxSteps / 2);
    EXPECT_EQ(kinds[Kind::kFullyConnected], 2);
    const int left = kinds[Kind::kMul] + kinds[Kind::kDiv] + kinds[Kind::kAdd];
    EXPECT_GT(left, kLength / 2);
    EXPECT_LT(left, kLength);
  };
  chain([&](Val x) { return b.mul(x, numbers); });
  chain([&](Val x) { return b.div(x, numbers); });
  chain([&](Val x) { return b.add(x, numbers); });
}

TEST_F(ScaleRules, AConstantMinusAValueIsNotAnOffset) {
  Val c = conv(input({2, 5, 7, 4}), 3);
  EXPECT_EQ(fused(b.sub(counted({3}), c)), (Kinds{{Kind::kConv2d, 1}, {Kind::kSub, 1}}));
  EXPECT_EQ(fused(b.div(counted({3}), c)), (Kinds{{Kind::kConv2d, 1}, {Kind::kDiv, 1}}));
}

TEST_F(ScaleRules, OtherAxesAndLargerShapesStay) {
  Val c = conv(input({1, 5, 7, 4}), 3);
  const Kinds stays{{Kind::kConv2d, 1}, {Kind::kMul, 1}};
  EXPECT_EQ(fused(b.mul(c, counted({7, 1}))), stays);
  EXPECT_EQ(fused(b.mul(c, counted({7, 3}))), stays);
  EXPECT_EQ(fused(b.mul(c, counted({2, 1, 1, 3}))), stays);
  EXPECT_EQ(fused(b.mul(conv(input({1, 5, 7, 4}), 1), counted({6}))), stays);
}

TEST_F(ScaleRules, AnActivationInBetweenPreventsFolding) {
  EXPECT_EQ(fused(b.mul(b.relu(conv(input({2, 5, 7, 4}), 3)), counted({3}))),
            (Kinds{{Kind::kConv2d, 1}, {Kind::kMul, 1}}));
}

TEST_F(ScaleRules, TheUnscaledValueMayHaveAnotherUser) {
  Val c = conv(input({2, 5, 7, 4}), 3);
  EXPECT_EQ(fused({b.mul(c, counted({3})), c}), (Kinds{{Kind::kConv2d, 1}, {Kind::kMul, 1}}));
}

TEST_F(ScaleRules, InfinitiesAndDivisionsByZeroStay) {
  const float infinite[] = {1, std::numeric_limits<float>::infinity(), 2};
  Val c = conv(input({2, 5, 7, 4}), 3), mask = b.constant(stream::recipe::floats(infinite, {3}));
  EXPECT_EQ(fused(b.add(c, mask)), (Kinds{{Kind::kConv2d, 1}, {Kind::kAdd, 1}}));
  EXPECT_EQ(fused(b.mul(c, mask)), (Kinds{{Kind::kConv2d, 1}, {Kind::kMul, 1}}));
  EXPECT_EQ(fused(b.div(c, counted({3}))), (Kinds{{Kind::kConv2d, 1}, {Kind::kDiv, 1}}));
}

TEST_F(ScaleRules, AnInfinityAmongManyNumbersStays) {
  std::vector<float> factors(70000, 2);
  factors[66000] = std::numeric_limits<float>::infinity();
  const Val many = b.constant(stream::recipe::floats(factors, {70000}));
  EXPECT_EQ(fused(b.mul(b.fully_connected(input({1, 2}), ones({70000, 2}), {}, false), many)),
            (Kinds{{Kind::kFullyConnected, 1}, {Kind::kMul, 1}}));
}

TEST_F(ScaleRules, ARunTimeBiasPreventsFolding) {
  Val x = b.fully_connected(input({2, 4}), ones({3, 4}), input({3}), false);
  EXPECT_EQ(fused(b.add(x, counted({3}))), (Kinds{{Kind::kFullyConnected, 1}, {Kind::kAdd, 1}}));
}

TEST_F(ScaleRules, TheAttentionScaleFoldsIntoOneProjection) {
  Val x = input({2, 4, 6});
  Val q = linear(x, 6), k = linear(x, 6);
  EXPECT_EQ(fused(b.div(b.batch_matmul(b.reshape(q, {2, 4, 6}), k, false, true), 2)),
            (Kinds{{Kind::kFullyConnected, 2}, {Kind::kBatchMatmul, 1}}));
  double sum = 0;
  for (const core::Op& op : graph.ops)
    if (op.kind == Kind::kFullyConnected) sum += numbers(op.inputs[1])[0];
  EXPECT_EQ(sum, 1.5);
}

struct SumOfLayers : Fusing {
  Val x = input({2, 5}), first = linear(x, 3), second = linear(x, 3), sum = b.add(first, second);
  const Kinds found{{Kind::kFullyConnected, 2}, {Kind::kAdd, 1}};
};

TEST_F(SumOfLayers, TakesABiasIntoOneOfThem) {
  EXPECT_EQ(fused(b.relu(b.add(sum, counted({3})))), found);
  EXPECT_EQ(std::get<core::BinaryOptions>(only(Kind::kAdd).options).activation, core::Activation::kRelu);
  EXPECT_EQ(numbers(only(Kind::kFullyConnected).inputs[2]), (std::vector<double>{1, 2, 3}));
}

TEST_F(SumOfLayers, TakesADifference) {
  EXPECT_EQ(fused(b.sub(sum, counted({3}))), found);
  EXPECT_EQ(numbers(only(Kind::kFullyConnected).inputs[2]), (std::vector<double>{1, 0, -1}));
}

TEST_F(SumOfLayers, ThatIsSeenKeepsTheBiasBehindIt) {
  EXPECT_EQ(fused({b.add(sum, counted({3})), sum})[Kind::kAdd], 2);
}

TEST_F(SumOfLayers, WithAnActivationKeepsTheBiasBehindIt) {
  EXPECT_EQ(fused(b.add(b.relu(sum), counted({3})))[Kind::kAdd], 2);
}

TEST_F(SumOfLayers, ThatIsTakenAwayStays) { EXPECT_EQ(fused(b.sub(counted({3}), sum))[Kind::kSub], 1); }

TEST_F(ScaleRules, AProjectionTimesItselfIsNotScaled) {
  Val q = linear(input({2, 4, 6}), 6);
  EXPECT_EQ(fused(b.div(b.batch_matmul(q, q, false, true), 2)),
            (Kinds{{Kind::kFullyConnected, 1}, {Kind::kBatchMatmul, 1}, {Kind::kDiv, 1}}));
}

TEST_F(ScaleRules, AVectorScaleStaysAfterTheProduct) {
  Val x = input({2, 4, 6});
  EXPECT_EQ(fused(b.mul(b.batch_matmul(linear(x, 6), linear(x, 6), false, true), counted({4}))),
            (Kinds{{Kind::kFullyConnected, 2}, {Kind::kBatchMatmul, 1}, {Kind::kMul, 1}}));
}

}  // namespace
}  // namespace lowtide::layout
