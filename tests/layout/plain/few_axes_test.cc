// SPDX-License-Identifier: Apache-2.0
#include "layout/plain/few_axes.h"

#include <gtest/gtest.h>

#include "tests/layout/built_graph.h"

namespace lowtide::layout {
namespace {

using core::Dim;
using core::DType;
using core::Shape;
using core::Val;

// `plain` ops on four axes, then one on five, and the same with that one between RESHAPEs.
struct FewAxes : BuiltGraph {
  core::Graph changed{symbols, budget};
  core::Builder c{changed};

  static void build(core::Builder& builder, core::Graph& to, Dim batch, int plain, bool few) {
    const Shape four = {batch, 3, 4, 5}, five = {batch, 3, 4, 1, 5};
    Val x{to.add_value(DType::kFloat32, four, "x")};
    to.inputs = {x.id};
    for (int i = 0; i < plain; ++i) x = builder.tanh(x);
    x = few ? builder.reshape(builder.exp(builder.reshape(x, {batch, 12, 5})), four)
            : builder.reshape(builder.exp(builder.reshape(x, five)), four);
    to.outputs = {x.id};
  }

  bool is_worth(int plain, Dim batch = 2) {
    build(b, graph, batch, plain, false);
    build(c, changed, batch, plain + 1, true);  // an op more
    return is_worth_few_axes(graph, changed);
  }
};

TEST_F(FewAxes, AreWorthOneOpInMany) { EXPECT_TRUE(is_worth(60)); }

TEST_F(FewAxes, AreNotWorthOneOpInFew) { EXPECT_FALSE(is_worth(6)); }

TEST_F(FewAxes, AreNotWorthAnythingWhereAnOpKeepsMore) {
  build(b, graph, 2, 60, false);
  EXPECT_TRUE(has_many_axes(graph));
  EXPECT_FALSE(is_worth_few_axes(graph, graph));
}

TEST_F(FewAxes, AreNotWorthAnythingWithDynamicDimensions) { EXPECT_FALSE(is_worth(60, symbols.named("N"))); }

}  // namespace
}  // namespace lowtide::layout
