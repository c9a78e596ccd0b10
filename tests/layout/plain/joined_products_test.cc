// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "layout/plain/plain.h"
#include "tests/layout/built_graph.h"

namespace lowtide::layout {
namespace {

using core::Dim;
using core::Kind;
using core::Shape;
using core::Val;

struct JoinedProducts : BuiltGraph {
  Val product(const Shape& data, Dim columns, bool has_bias = false, bool keeps = false) {
    return b.fully_connected(input(data), constant({columns, data.back()}), has_bias ? constant({columns}) : Val{},
                             keeps);
  }
  // Another number in each.
  Val constant(const Shape& shape) {
    return b.constant(stream::recipe::fill_value(++made, core::DType::kFloat32, shape));
  }
  // FULLY_CONNECTED, CONCATENATION and ADD in the graph of a sum.
  std::array<int, 3> ops_of(Val sum) {
    graph.outputs = {sum.id};
    join_products(graph);
    graph.tidy();
    std::array<int, 3> out{};
    for (const core::Op& op : graph.ops) {
      out[0] += op.kind == Kind::kFullyConnected;
      out[1] += op.kind == Kind::kConcatenation;
      out[2] += op.kind == Kind::kAdd;
    }
    return out;
  }
  int made = 0;
};

constexpr std::array kJoined{1, 1, 0}, kApart{2, 0, 1};

TEST_F(JoinedProducts, OfTwoOperandsBecomeOne) {
  EXPECT_EQ(ops_of(b.add(product({3, 5}, 13, true), product({3, 7}, 13))), kJoined);
  ASSERT_EQ(graph.at(graph.outputs[0]).shape, (Shape{3, 13}));
  const core::Op& layer = graph.op(graph.at(graph.outputs[0]).producer);
  EXPECT_EQ(graph.at(layer.inputs[1]).shape, (Shape{13, 12}));
}

TEST_F(JoinedProducts, BehindAReshapeToo) {
  const Val step = b.reshape(product({1, 3, 5}, 13, false, true), Shape{3, 13});
  EXPECT_EQ(ops_of(b.add(step, product({3, 7}, 13, true))), kJoined);
}

TEST_F(JoinedProducts, OfAnUnknownBatch) {
  const Dim n = symbols.named("N");
  EXPECT_EQ(ops_of(b.add(product({n, 5}, 13, true), product({n, 7}, 13, true))), kJoined);
}

TEST_F(JoinedProducts, OthersStay) {
  EXPECT_EQ(ops_of(b.add(product({3, 5}, 13), product({1, 7}, 13))), kApart);  // the rows of one are repeated
  EXPECT_EQ(ops_of(b.add(product({3, 5}, 11), product({3, 7}, 11))), kApart);  // CONCATENATION moves more than ADD
  EXPECT_EQ(ops_of(b.add(product({2, 3, 5}, 13, false, true), product({2, 3, 7}, 13, false, true))),
            kApart);  // three axes
  const Val once = product({3, 5}, 13), twice = product({3, 7}, 13);
  EXPECT_EQ(ops_of(b.mul(b.add(once, twice), twice)), kApart);  // a product that is read elsewhere
  EXPECT_EQ(ops_of(b.add(product({3, 1024}, 2080), product({3, 1024}, 2080))), kApart);  // large matrices
}

}  // namespace
}  // namespace lowtide::layout
