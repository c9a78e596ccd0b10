// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "layout/plain/plain.h"
#include "tests/layout/built_graph.h"

namespace lowtide::layout {
namespace {

using core::Kind;
using core::Perm;
using core::Val;

struct PlainSquares : BuiltGraph {
  // The orders of the TRANSPOSEs that are left.
  std::vector<Perm> orders() {
    plain_squares(graph);
    graph.tidy();
    std::vector<Perm> out;
    for (const core::Op& op : graph.ops) {
      if (op.kind != Kind::kTranspose) continue;
      const auto order = graph.ints(op.inputs[1]);
      out.emplace_back(order->begin(), order->end());
    }
    return out;
  }
  const core::Op& product() {
    return *std::find_if(graph.ops.begin(), graph.ops.end(),
                         [](const core::Op& op) { return op.kind == Kind::kBatchMatmul; });
  }
  bool is_adjoint() { return std::get<core::BatchMatmulOptions>(product().options).adj_y; }
};

const Perm kHeads{0, 3, 1, 2}, kSwapped{0, 3, 2, 1};

TEST_F(PlainSquares, OperandsAreTransposedEach) {
  const Val t = b.transpose(input({2, 5, 5, 3}), kHeads);
  graph.at(t.id).quantization = core::Quantization{.scale = {0.5F}, .zero_point = {0}};
  graph.outputs = {b.batch_matmul(t, t, false, false).id};
  EXPECT_EQ(orders(), (std::vector<Perm>{kHeads, kSwapped}));
  EXPECT_TRUE(is_adjoint());
  EXPECT_EQ(graph.at(product().inputs[1]).quantization->scale, std::vector<float>{0.5F});
}

TEST_F(PlainSquares, OneThatOthersReadStays) {
  const Val t = b.transpose(input({2, 5, 5, 3}), kHeads);
  graph.outputs = {b.batch_matmul(t, t, false, false).id, t.id};
  EXPECT_EQ(orders(), std::vector<Perm>{kHeads});
  EXPECT_FALSE(is_adjoint());
}

TEST_F(PlainSquares, TransposedProductsStay) {
  const Val t = b.transpose(input({2, 5, 5, 3}), kHeads), u = b.transpose(input({2, 5, 5, 3}), kHeads);
  graph.outputs = {b.batch_matmul(t, t, true, false).id, b.batch_matmul(u, u, false, true).id};
  EXPECT_EQ(orders(), (std::vector<Perm>{kHeads, kHeads}));
}

}  // namespace
}  // namespace lowtide::layout
