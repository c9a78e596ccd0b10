// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "layout/plain/plain.h"
#include "tests/layout/built_graph.h"

namespace lowtide::layout {
namespace {

using core::Kind;
using core::Perm;
using core::Shape;
using core::Val;

struct PlainProducts : BuiltGraph {
  // Ranks of what the TRANSPOSEs of a x TRANSPOSE(b) give, and how many RESHAPEs there are.
  std::pair<std::vector<size_t>, int> forms(const Shape& a, Val b_operand, const Perm& order, bool is_adjoint = false) {
    const Val y = b.batch_matmul(input(a), b.transpose(b_operand, order), false, is_adjoint);
    graph.outputs = {y.id};
    plain_products(graph);
    graph.tidy();
    std::pair<std::vector<size_t>, int> out;
    for (const core::Op& op : graph.ops) {
      if (op.kind == Kind::kTranspose) out.first.push_back(graph.at(op.outputs[0]).shape.size());
      out.second += op.kind == Kind::kReshape;
    }
    return out;
  }
  Val heads(const Shape& tokens, const Shape& split) { return b.reshape(input(tokens), split); }
  static std::pair<std::vector<size_t>, int> of(size_t rank, int reshapes) { return {{rank}, reshapes}; }
};

const Perm kValues{0, 2, 1, 3}, kKeys{0, 2, 3, 1};

TEST_F(PlainProducts, RowsOfValuesStayRows) {
  EXPECT_EQ(forms({1, 8, 64, 1024}, heads({1, 1024, 640}, {1, 1024, 8, 80}), kValues), of(3, 2));
  EXPECT_EQ(forms({1, 12, 1, 300}, input({1, 300, 12, 64}), kValues), of(3, 2));
  EXPECT_EQ(forms({12, 1, 300}, heads({300, 768}, {300, 12, 64}), {1, 0, 2}), of(4, 2));
  const core::Dim n = symbols.named("N");
  EXPECT_EQ(forms({1, 8, 5, n}, heads({1, n, 640}, {1, n, 8, 80}), kValues), of(3, 2));
}

TEST_F(PlainProducts, KeysOfFewElementsStay) {
  EXPECT_EQ(forms({1, 12, 20, 64}, heads({1, 16, 768}, {1, 16, 12, 64}), kKeys), of(3, 2));
  EXPECT_EQ(forms({1, 12, 20, 64}, heads({1, 32, 768}, {1, 32, 12, 64}), kKeys), of(4, 1));
}

TEST_F(PlainProducts, NothingChangesForManyQueries) {
  EXPECT_EQ(forms({1, 12, 64, 197}, heads({1, 197, 768}, {1, 197, 12, 64}), kValues), of(3, 2));
  EXPECT_EQ(forms({1, 12, 65, 197}, heads({1, 197, 768}, {1, 197, 12, 64}), kValues), of(4, 1));
  EXPECT_EQ(forms({1, 4, 65, 7}, heads({1, 7, 32}, {1, 7, 4, 8}), kValues), of(4, 1));
}

TEST_F(PlainProducts, OthersStay) {
  EXPECT_EQ(forms({2, 4, 5, 6}, heads({2, 6, 12}, {2, 6, 4, 3}), kValues), of(4, 1));  // a batch of 2
  EXPECT_EQ(forms({1, 4, 5, 3}, heads({1, 6, 12}, {1, 6, 4, 3}), kValues, true),
            of(4, 1));                                                                      // by the transposed operand
  EXPECT_EQ(forms({4, 1, 5, 6}, heads({1, 6, 12}, {1, 6, 4, 3}), {2, 0, 1, 3}), of(4, 1));  // the first axis moves
  const core::Dim n = symbols.named("N"), h = symbols.named("H");
  EXPECT_EQ(forms({1, h, 5, n}, input({1, n, h, 3}), kValues), of(4, 0));  // lengths would be computed at run time
}

}  // namespace
}  // namespace lowtide::layout
