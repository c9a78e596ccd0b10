// SPDX-License-Identifier: Apache-2.0
// Shapes of the image ops with sizes that are not known, and what their kernels would refuse.
#include <gtest/gtest.h>

#include "layout/core/builder.h"
#include "layout/core/builtin.h"
#include "stream/error.h"

namespace lowtide::core {
namespace {

struct ConvTraits : testing::Test {
  stream::Budget budget{1 << 20};
  Symbols symbols;
  Graph graph{symbols, budget};
  Builder b{graph};

  Val input(Shape shape) { return {graph.add_value(DType::kFloat32, std::move(shape))}; }
};

TEST_F(ConvTraits, SymbolicSizesStayExact) {
  const Dim n = symbols.named("n"), h = symbols.named("h");
  Val x = input({n, symbols.mul(h, 2), 9, 3});
  Val same = b.conv_2d(x, input({4, 3, 3, 3}), {}, {.padding = Padding::kSame, .stride_h = 2, .stride_w = 2});
  EXPECT_EQ(b.shape(same), (Shape{n, h, 5, 4}));
  Val valid =
      b.max_pool_2d(x, {.padding = Padding::kValid, .stride_h = 2, .stride_w = 1, .filter_h = 2, .filter_w = 3});
  EXPECT_EQ(b.shape(valid), (Shape{n, h, 7, 3}));
  EXPECT_EQ(b.shape(b.depth_to_space(input({n, h, 5, 12}), 2)), (Shape{n, symbols.mul(h, 2), 10, 3}));
}

TEST_F(ConvTraits, ImpossibleShapesAreMalformed) {
  Val x = input({1, 7, 9, 6});
  EXPECT_THROW(b.conv_2d(x, input({4, 3, 3, 4}), {}, {}), stream::Error);            // 6 channels in groups of 4
  EXPECT_THROW(b.conv_2d(x, input({4, 3, 3, 2}), {}, {}), stream::Error);            // 3 groups, 4 filters
  EXPECT_THROW(b.conv_2d(x, input({4, 9, 3, 6}), {}, {}), stream::Error);            // a kernel of 9 in 7 rows
  EXPECT_THROW(b.conv_2d(x, input({4, 3, 3, 6}), input({5}), {}), stream::Error);    // a bias of 5 for 4 filters
  EXPECT_THROW(b.depthwise_conv_2d(x, input({1, 3, 3, 8}), {}, {}), stream::Error);  // 8 is not a multiple of 6
  EXPECT_THROW(b.space_to_depth(x, 2), stream::Error);
  EXPECT_THROW(b.depth_to_space(x, 2), stream::Error);
  EXPECT_THROW(b.max_pool_2d(input({7, 9, 6}), {}), stream::Error);
}

TEST_F(ConvTraits, NormalisationsFollowWhatKeepsTheLastAxis) {
  Val y = b.local_response_normalization(input({2, 3, 5, 7}), {});
  const Op& op = graph.ops.back();
  const OpView view{graph, op.kind, op.inputs, op.options};
  const auto commute = builtin(op.kind).commute;
  EXPECT_TRUE(commute(view, op.outputs, {false, 0}, {1, 0, 2, 3}));
  EXPECT_FALSE(commute(view, op.outputs, {false, 0}, {0, 1, 3, 2}));
  EXPECT_EQ(b.shape(y), (Shape{2, 3, 5, 7}));
  EXPECT_EQ(*builtin(Kind::kDepthwiseConv2d).commute, nullptr);
}

}  // namespace
}  // namespace lowtide::core
