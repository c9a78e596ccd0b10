// SPDX-License-Identifier: Apache-2.0
#include "layout/legalise/keep_infinities.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/layout/built_graph.h"

namespace lowtide::layout {
namespace {

using core::Activation;
using core::DType;
using core::Kind;
using core::Val;

struct KeepInfinities : BuiltGraph {
  Val x{graph.add_value(DType::kFloat32, {2, 3}, "x")};
  Val mask = b.filled(-std::numeric_limits<double>::infinity(), DType::kFloat32, {3});

  int selects(Val y, Activation activation = Activation::kNone) {
    if (activation != Activation::kNone) std::get<core::BinaryOptions>(graph.ops[0].options).activation = activation;
    graph.inputs = {x.id};
    graph.outputs = {y.id};
    keep_infinities(graph);
    int count = 0;
    for (const core::Op& op : graph.ops) count += op.kind == Kind::kSelectV2;
    return count;
  }
};

TEST_F(KeepInfinities, InAMaskThatIsAnOutput) {
  EXPECT_EQ(selects(b.reshape(b.add(x, mask), {3, 2})), 1);
  EXPECT_EQ(graph.at(graph.outputs[0]).shape, (core::Shape{3, 2}));
}

TEST_F(KeepInfinities, NotBeforeOpsThatRemoveThem) { EXPECT_EQ(selects(b.softmax(b.add(x, mask))), 0); }

TEST_F(KeepInfinities, InLargeMasksToo) {
  const auto infinity = std::numeric_limits<double>::infinity();
  x = {graph.add_value(DType::kFloat32, {300, 300}, "x")};
  // Two: the one of the bound, which is as large as the mask, is not folded.
  EXPECT_EQ(selects(b.add(x, b.filled(-infinity, DType::kFloat32, {300, 300}))), 2);
}

TEST_F(KeepInfinities, NotInLargeMasksThatAreFinite) {
  x = {graph.add_value(DType::kFloat32, {300, 300}, "x")};
  const Val inner = b.filled(-std::numeric_limits<double>::infinity(), DType::kFloat32, {300, 300});
  const Val hidden = b.softmax(b.add(x, inner));
  EXPECT_EQ(selects(b.add(hidden, b.filled(-1e9, DType::kFloat32, {300, 300}))), 0);
}

TEST_F(KeepInfinities, NotInFiniteMasks) { EXPECT_EQ(selects(b.add(x, -1e9)), 0); }

TEST_F(KeepInfinities, AFusedReluIsAppliedAfterTheSelect) {
  EXPECT_EQ(selects(b.add(x, mask), Activation::kRelu), 1);
  EXPECT_EQ(graph.ops.back().kind, Kind::kRelu);
  for (const core::Op& op : graph.ops)
    if (op.kind == Kind::kAdd) {
      EXPECT_EQ(std::get<core::BinaryOptions>(op.options).activation, Activation::kNone);
    }
}

TEST_F(KeepInfinities, AFusedRelu6RemovesThem) { EXPECT_EQ(selects(b.add(x, mask), Activation::kRelu6), 0); }

}  // namespace
}  // namespace lowtide::layout
