// SPDX-License-Identifier: Apache-2.0
// How the matrix products move when an operand is stored in another axis order, and what they refuse.
#include <gtest/gtest.h>

#include "layout/core/builder.h"
#include "layout/core/builtin.h"
#include "stream/error.h"

namespace lowtide::core {
namespace {

struct MatmulTraits : testing::Test {
  stream::Budget budget{1 << 20};
  Symbols symbols;
  Graph graph{symbols, budget};
  Builder b{graph};

  Val input(Shape shape) { return {graph.add_value(DType::kFloat32, std::move(shape))}; }
  const Op& last() const { return graph.ops.back(); }
  std::optional<Movement> commute(Slot slot, const Perm& perm) {
    const Op& op = last();
    const OpView view{graph, op.kind, op.inputs, op.options};
    return builtin(op.kind).commute(view, op.outputs, slot, perm);
  }
};

TEST_F(MatmulTraits, BatchAxesBroadcast) {
  EXPECT_EQ(b.shape(b.batch_matmul(input({2, 1, 4, 5}), input({3, 5, 7}))), (Shape{2, 3, 4, 7}));
  EXPECT_EQ(b.shape(b.batch_matmul(input({5, 4}), input({2, 7, 5}), true, true)), (Shape{2, 4, 7}));
  const Dim n = symbols.named("n");
  EXPECT_EQ(b.shape(b.batch_matmul(input({n, 4, 5}), input({n, 5, 7}))), (Shape{n, 4, 7}));
  EXPECT_EQ(b.shape(b.batch_matmul(input({n, 4, 5}), input({3, 5, 7}))), (Shape{3, 4, 7}));
}

TEST_F(MatmulTraits, WrongPlacesAreMalformed) {
  EXPECT_THROW(b.batch_matmul(input({2, 4, 5}), input({2, 6, 7})), stream::Error);
  EXPECT_THROW(b.batch_matmul(input({2, 4, 5}), input({3, 5, 7})), stream::Error);
  EXPECT_THROW(b.batch_matmul(input({5}), input({5, 7})), stream::Error);
  EXPECT_THROW(b.fully_connected(input({2, 5}), input({7, 6}), {}, true), stream::Error);
}

TEST_F(MatmulTraits, BatchAxesMoveTogether) {
  b.batch_matmul(input({2, 3, 4, 5}), input({2, 1, 5, 7}));
  auto movement = commute({false, 0}, {1, 0, 2, 3});
  ASSERT_TRUE(movement);
  EXPECT_EQ(movement->inputs[1], (Perm{1, 0, 2, 3}));
  EXPECT_EQ(movement->outputs[0], (Perm{1, 0, 2, 3}));
  EXPECT_FALSE(commute({false, 0}, {2, 1, 0, 3}));
  EXPECT_FALSE(commute({true, 0}, {0, 1, 3, 2}));
}

TEST_F(MatmulTraits, ATransposedOperandTogglesItsFlag) {
  b.batch_matmul(input({2, 3, 4, 5}), input({2, 3, 5, 7}));
  auto movement = commute({false, 1}, {0, 1, 3, 2});
  ASSERT_TRUE(movement);
  EXPECT_TRUE(movement->inputs[0].empty());
  EXPECT_TRUE(movement->outputs[0].empty());
  Op op = last();
  builtin(Kind::kBatchMatmul).rewrite(graph, op, *movement);
  EXPECT_FALSE(std::get<BatchMatmulOptions>(op.options).adj_x);
  EXPECT_TRUE(std::get<BatchMatmulOptions>(op.options).adj_y);
}

TEST_F(MatmulTraits, AMatrixWithoutBatchStays) {
  b.batch_matmul(input({2, 3, 4, 5}), input({5, 7}));
  auto movement = commute({false, 0}, {1, 0, 2, 3});
  ASSERT_TRUE(movement);
  EXPECT_TRUE(movement->inputs[1].empty());
  EXPECT_FALSE(commute({false, 1}, {1, 0, 2, 3}));
}

TEST_F(MatmulTraits, RowsOfAFullyConnectedLayerMove) {
  b.fully_connected(input({2, 3, 5}), input({7, 5}), {}, true);
  auto movement = commute({true, 0}, {1, 0, 2});
  ASSERT_TRUE(movement);
  EXPECT_EQ(movement->inputs[0], (Perm{1, 0, 2}));
  EXPECT_FALSE(commute({false, 0}, {0, 2, 1}));
  EXPECT_FALSE(commute({false, 1}, {1, 0}));
  b.fully_connected(input({2, 3, 5}), input({7, 15}), {}, false);
  EXPECT_FALSE(commute({false, 0}, {1, 0, 2}));
}

}  // namespace
}  // namespace lowtide::core
