// SPDX-License-Identifier: Apache-2.0
#include "tests/layout/fuse/fusing.h"

namespace lowtide::layout {
namespace {

struct PixelShuffle : Fusing {
  Val x = input({1, 5, 7, 2});
  Val made() { return b.conv_2d(x, counted({8, 1, 1, 2}), counted({8}), {}); }
  // The channels split into `apart`, of which perm says which are row, column and channel.
  Val shuffled(Val v, Shape apart, Perm perm, Shape together) {
    Shape split{1, 5, 7};
    split.insert(split.end(), apart.begin(), apart.end());
    return b.reshape(b.transpose(b.reshape(v, split), perm), together);
  }
  Val pytorch(Val v) { return shuffled(v, {2, 2, 2}, {0, 1, 4, 2, 5, 3}, {1, 10, 14, 2}); }
  const Kinds found{{Kind::kConv2d, 1}, {Kind::kDepthToSpace, 1}};
};

TEST_F(PixelShuffle, PyTorchOrderPermutesTheWeights) {
  EXPECT_EQ(fused(pytorch(made())), found);
  const std::vector<double> channels{0, 4, 1, 5, 2, 6, 3, 7};
  EXPECT_EQ(numbers(only(Kind::kConv2d).inputs[2]), channels);
  EXPECT_EQ(numbers(only(Kind::kConv2d).inputs[1])[2], 8);  // channel 4 starts with weight 8
}

TEST_F(PixelShuffle, DepthToSpaceOrderKeepsTheWeights) {
  Val v = input({1, 5, 7, 12});
  EXPECT_EQ(fused(shuffled(v, {2, 2, 3}, {0, 1, 3, 2, 4, 5}, {1, 10, 14, 3})), (Kinds{{Kind::kDepthToSpace, 1}}));
}

TEST_F(PixelShuffle, MovesAcrossElementwiseOpsAndTheirConstants) {
  Val residual = b.add(made(), b.relu(made()));
  EXPECT_EQ(fused(pytorch(b.mul(b.tanh(residual), counted({8})))),
            (Kinds{{Kind::kConv2d, 2}, {Kind::kAdd, 1}, {Kind::kTanh, 1}, {Kind::kMul, 1}, {Kind::kDepthToSpace, 1}}));
  EXPECT_EQ(numbers(only(Kind::kMul).inputs[1]), (std::vector<double>{0, 4, 1, 5, 2, 6, 3, 7}));
}

TEST_F(PixelShuffle, AGatherOfAllChannelsMovesToo) {
  Val order = b.i32({0, 4, 1, 5, 2, 6, 3, 7});
  EXPECT_EQ(fused(b.depth_to_space(b.gather(b.relu(made()), order, 3), 2)), found);
  EXPECT_EQ(numbers(only(Kind::kConv2d).inputs[2]), (std::vector<double>{0, 4, 1, 5, 2, 6, 3, 7}));
  EXPECT_EQ(fused(b.gather(made(), b.i32({0, 4, 1, 5, 2, 6, 3, 3}), 3))[Kind::kGather], 1);
  Val v = made();
  EXPECT_EQ(fused({b.gather(v, order, 3), v})[Kind::kGather], 1);
}

TEST_F(PixelShuffle, ALongChainIsNotLookedThrough) {
  Val v = made();
  for (int i = 0; i < 200'000; ++i) v = b.tanh(v);
  EXPECT_EQ(fused(pytorch(v))[Kind::kDepthToSpace], 0);
}

TEST_F(PixelShuffle, StaysIfTheChannelsCannotMove) {
  EXPECT_EQ(fused(pytorch(input({1, 5, 7, 8})))[Kind::kDepthToSpace], 0);
  EXPECT_EQ(fused(pytorch(b.softmax(made())))[Kind::kDepthToSpace], 0);
  EXPECT_EQ(fused(pytorch(b.add(made(), input({1, 5, 7, 8}))))[Kind::kDepthToSpace], 0);
  EXPECT_EQ(fused(pytorch(b.add(made(), input({symbols.named("C")}))))[Kind::kDepthToSpace], 0);
  Val seen = made();
  EXPECT_EQ(fused({pytorch(seen), seen})[Kind::kDepthToSpace], 0);
  Val grouped = b.conv_2d(x, counted({8, 1, 1, 1}), {}, {});
  EXPECT_EQ(fused(pytorch(grouped))[Kind::kDepthToSpace], 0);
  Val depthwise = b.depthwise_conv_2d(x, counted({1, 1, 1, 8}), {}, {.depth_multiplier = 4});
  EXPECT_EQ(fused(pytorch(depthwise))[Kind::kDepthToSpace], 0);
}

TEST_F(PixelShuffle, OtherTransposesAreNotPixelShuffles) {
  Val v = input({1, 5, 7, 12});
  EXPECT_EQ(fused(shuffled(v, {2, 3, 2}, {0, 1, 3, 2, 4, 5}, {1, 10, 21, 2}))[Kind::kDepthToSpace], 0);
  EXPECT_EQ(fused(shuffled(v, {2, 2, 3}, {0, 3, 1, 2, 4, 5}, {1, 10, 14, 3}))[Kind::kDepthToSpace], 0);
  EXPECT_EQ(fused(shuffled(v, {2, 2, 3}, {0, 1, 3, 2, 4, 5}, {1, 14, 10, 3}))[Kind::kDepthToSpace], 0);
  EXPECT_EQ(fused(shuffled(input({1, 5, 7, 12}, DType::kInt16), {2, 2, 3}, {0, 1, 3, 2, 4, 5},
                           {1, 10, 14, 3}))[Kind::kDepthToSpace],
            0);
}

}  // namespace
}  // namespace lowtide::layout
