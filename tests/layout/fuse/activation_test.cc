// SPDX-License-Identifier: Apache-2.0
#include "tests/layout/fuse/fusing.h"

namespace lowtide::layout {
namespace {

using core::Activation;
using ActivationRules = Fusing;

TEST_F(ActivationRules, FuseIntoTheOpBefore) {
  Val x = input({2, 3, 5, 7});
  EXPECT_EQ(fused(b.relu(b.add(x, b.relu6(conv(x, 7))))), (Kinds{{Kind::kConv2d, 1}, {Kind::kAdd, 1}}));
  EXPECT_EQ(std::get<core::Conv2dOptions>(only(Kind::kConv2d).options).activation, Activation::kRelu6);
  EXPECT_EQ(std::get<core::BinaryOptions>(only(Kind::kAdd).options).activation, Activation::kRelu);
}

TEST_F(ActivationRules, TwoInARowMergeIfTheirRangesAllow) {
  EXPECT_EQ(fused(b.relu(b.relu6(b.relu(conv(input({2, 3, 5, 7}), 11))))), (Kinds{{Kind::kConv2d, 1}}));
  EXPECT_EQ(std::get<core::Conv2dOptions>(only(Kind::kConv2d).options).activation, Activation::kRelu6);
}

TEST_F(ActivationRules, ReluToOneIsNotFused) {
  EXPECT_EQ(fused(b.relu_n1_to_1(b.relu(conv(input({2, 3, 5, 7}), 11)))),
            (Kinds{{Kind::kConv2d, 1}, {Kind::kReluN1To1, 1}}));
}

TEST_F(ActivationRules, StayIfTheValueHasAnotherUser) {
  Val c = conv(input({2, 3, 5, 7}), 11);
  EXPECT_EQ(fused({b.relu(c), b.tanh(c)}), (Kinds{{Kind::kConv2d, 1}, {Kind::kRelu, 1}, {Kind::kTanh, 1}}));
  EXPECT_EQ(fused({b.relu(c), c}), (Kinds{{Kind::kConv2d, 1}, {Kind::kRelu, 1}}));
}

TEST_F(ActivationRules, StayOnIntegersAndAfterConcatenations) {
  Val x = input({2, 3}, DType::kInt32), z = input({2, 5});
  EXPECT_EQ(fused(b.relu(b.add(x, x))), (Kinds{{Kind::kAdd, 1}, {Kind::kRelu, 1}}));
  EXPECT_EQ(fused(b.relu(b.concat({z, z}, 1))), (Kinds{{Kind::kConcatenation, 1}, {Kind::kRelu, 1}}));
}

}  // namespace
}  // namespace lowtide::layout
