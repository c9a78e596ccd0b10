// SPDX-License-Identifier: Apache-2.0
#include "tests/layout/fuse/fusing.h"

namespace lowtide::layout {
namespace {

using TransposeRules = Fusing;

TEST_F(TransposeRules, MoveAcrossElementwiseOpsWithTheirConstants) {
  Val c = b.transpose(conv(input({2, 5, 7, 4}), 3), kToNchw);
  EXPECT_EQ(fused(b.relu(b.add(c, counted({3, 1, 1})))), (Kinds{{Kind::kConv2d, 1}, {Kind::kTranspose, 1}}));
  EXPECT_EQ(numbers(only(Kind::kConv2d).inputs[2]), (std::vector<double>{0, 1, 2}));
}

TEST_F(TransposeRules, StayBeforeOpsThatEnlargeTheData) {
  Val t = b.transpose(input({5, 7, 1}), {1, 0, 2});
  EXPECT_EQ(fused(b.tanh(b.mul(t, counted({9})))), (Kinds{{Kind::kTranspose, 1}, {Kind::kMul, 1}, {Kind::kTanh, 1}}));
  EXPECT_EQ(graph.at(only(Kind::kTranspose).outputs[0]).shape, (Shape{7, 5, 1}));
  Val bytes = b.transpose(input({5, 7}, DType::kInt8), {1, 0});
  fused(b.cast(bytes, DType::kFloat32));
  EXPECT_EQ(graph.at(only(Kind::kTranspose).outputs[0]).dtype, DType::kInt8);
}

TEST_F(TransposeRules, StayIfTheyAreOutputsOrHaveTwoUsers) {
  Val t = b.transpose(input({5, 7}), {1, 0});
  EXPECT_EQ(fused({b.tanh(t), t}), (Kinds{{Kind::kTranspose, 1}, {Kind::kTanh, 1}}));
  EXPECT_EQ(graph.at(only(Kind::kTanh).inputs[0]).shape, (Shape{7, 5}));
  EXPECT_EQ(fused(b.add(t, input({7, 5}))), (Kinds{{Kind::kTranspose, 1}, {Kind::kAdd, 1}}));
}

TEST_F(TransposeRules, TwoInARowMerge) {
  Val x = input({2, 3, 5});
  Val t = b.transpose(x, {1, 2, 0});
  // By hand: the builder joins them itself.
  EXPECT_EQ(fused(b.op(Kind::kTranspose, {t, b.i32({2, 1, 0})})), (Kinds{{Kind::kTranspose, 1}}));
  EXPECT_EQ(*graph.ints(only(Kind::kTranspose).inputs[1]), (std::vector<int64_t>{0, 2, 1}));
  Val u = b.transpose(x, {1, 2, 0});
  EXPECT_EQ(fused(b.tanh(b.op(Kind::kTranspose, {u, b.i32({2, 0, 1})}))), (Kinds{{Kind::kTanh, 1}}));
}

}  // namespace
}  // namespace lowtide::layout
