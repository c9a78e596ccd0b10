// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "layout/legalise/expand_erf.h"
#include "tests/layout/fuse/fusing.h"

namespace lowtide::layout {
namespace {

struct Gelu : Fusing {
  Val x = input({2, 3, 5});

  Val erf(Val v) { return b.op(core::Kind::kErf, {v}); }
  Val bend(double root) { return b.add(erf(b.div(x, root)), 1); }
  const Kinds only_gelu{{Kind::kGelu, 1}};
};

TEST_F(Gelu, FactorsInAnyOrder) {
  EXPECT_EQ(fused(b.mul(b.mul(x, bend(std::sqrt(2.0))), 0.5)), only_gelu);
  EXPECT_EQ(fused(b.mul(b.mul(x, 0.5), bend(std::sqrt(2.0)))), only_gelu);
  EXPECT_EQ(fused(b.mul(x, b.mul(bend(std::sqrt(2.0)), 0.5))), only_gelu);
}

TEST_F(Gelu, TanhApproximation) {
  Val cube = b.mul(x, b.mul(x, x));
  Val argument = b.mul(b.add(x, b.mul(cube, 0.044715)), std::sqrt(2 / M_PI));
  EXPECT_EQ(fused(b.mul(b.mul(x, b.add(b.tanh(argument), 1)), 0.5)), only_gelu);
  EXPECT_TRUE(std::get<core::GeluOptions>(graph.ops[0].options).approximate);
}

TEST_F(Gelu, OtherConstantsAreNotGelu) {
  EXPECT_NE(fused(b.mul(b.mul(x, bend(1.5)), 0.5)), only_gelu);
  EXPECT_NE(fused(b.mul(b.mul(x, bend(std::sqrt(2.0))), 0.25)), only_gelu);
}

TEST_F(Gelu, AnErfWithAnotherUserStays) {
  Val e = bend(std::sqrt(2.0));
  EXPECT_NE(fused(b.add(b.mul(b.mul(x, e), 0.5), e)), only_gelu);
  expand_erf(graph);
  graph.tidy();
  for (const core::Op& op : graph.ops) EXPECT_NE(op.kind, core::Kind::kErf);
}

}  // namespace
}  // namespace lowtide::layout
