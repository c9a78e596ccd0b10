// SPDX-License-Identifier: Apache-2.0
#include "tests/layout/fuse/fusing.h"

namespace lowtide::layout {
namespace {

struct MatmulRules : Fusing {
  // A convolution's result in ONNX's order: [2, 3, 1, 2] from [2, 1, 2, 3].
  Val image = b.transpose(conv(input({2, 1, 2, 4}), 3), kToNchw);
  Val flat(Val x) { return b.reshape(x, {2, 6}); }
  Val dense(Val x) { return b.fully_connected(x, counted({1, 6}), {}, false); }
};

TEST_F(MatmulRules, AFlattenFoldsIntoTheWeights) {
  EXPECT_EQ(fused(dense(flat(image))), (Kinds{{Kind::kConv2d, 1}, {Kind::kReshape, 1}, {Kind::kFullyConnected, 1}}));
  // Weight c * 2 + w of ONNX's order stands at w * 3 + c.
  EXPECT_EQ(numbers(only(Kind::kFullyConnected).inputs[1]), (std::vector<double>{0, 2, 4, 1, 3, 5}));
}

TEST_F(MatmulRules, LayersThatShareAFlattenChangeTogether) {
  Val f = flat(b.relu(image));
  EXPECT_EQ(fused({dense(f), dense(f)})[Kind::kTranspose], 0);
}

TEST_F(MatmulRules, AFlattenWithAnotherUserStays) {
  Val f = flat(image);
  EXPECT_EQ(fused({dense(f), f})[Kind::kTranspose], 1);
  EXPECT_EQ(fused({dense(f), b.softmax(f)})[Kind::kTranspose], 1);
}

TEST_F(MatmulRules, SharedWeightsStay) {
  Val weights = counted({1, 6});
  Val y = b.fully_connected(flat(image), weights, {}, false), z = b.fully_connected(input({2, 6}), weights, {}, false);
  EXPECT_EQ(fused({y, z})[Kind::kTranspose], 1);
}

TEST_F(MatmulRules, AFlattenAcrossTheBatchStays) {
  EXPECT_EQ(fused(b.fully_connected(b.reshape(image, {1, 12}), counted({1, 12}), {}, false))[Kind::kTranspose], 1);
  EXPECT_EQ(fused(b.fully_connected(b.reshape(image, {4, 3}), counted({1, 3}), {}, false))[Kind::kTranspose], 1);
}

TEST_F(MatmulRules, TransposesBecomeFlagsOfTheProduct) {
  Val x = input({2, 3, 5}), y = input({2, 7, 5});
  const Perm swap{0, 2, 1};
  EXPECT_EQ(fused(b.batch_matmul(x, b.transpose(y, swap))), (Kinds{{Kind::kBatchMatmul, 1}}));
  EXPECT_TRUE(std::get<core::BatchMatmulOptions>(only(Kind::kBatchMatmul).options).adj_y);
  Val t = b.transpose(x, swap);
  EXPECT_EQ(fused(b.batch_matmul(t, t, true, false)), (Kinds{{Kind::kBatchMatmul, 1}}));
  const auto options = std::get<core::BatchMatmulOptions>(only(Kind::kBatchMatmul).options);
  EXPECT_FALSE(options.adj_x);
  EXPECT_TRUE(options.adj_y);
}

TEST_F(MatmulRules, OtherPermutationsStay) {
  Val x = input({3, 2, 5}), y = input({2, 5, 7});
  EXPECT_EQ(fused(b.batch_matmul(b.transpose(x, {1, 0, 2}), y)),
            (Kinds{{Kind::kTranspose, 1}, {Kind::kBatchMatmul, 1}}));
}

}  // namespace
}  // namespace lowtide::layout
