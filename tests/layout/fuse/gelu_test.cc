#include <gtest/gtest.h>

#include <cmath>

#include "layout/builder.h"
#include "layout/fuse.h"
#include "layout/intermediate.h"

namespace lowtide::layout {
namespace {

using core::Builder;
using core::DType;
using core::Kind;
using core::Val;

struct Gelu : testing::Test {
  stream::Budget budget{16 << 20};
  core::Symbols symbols;
  core::Graph graph{symbols, budget};
  Builder b{graph};
  Val x{graph.add_value(DType::kFloat32, {2, 3, 5}, "x")};

  void SetUp() override {
    graph.inputs = {x.id};
    graph.input_names = {"x"};
  }
  std::vector<Kind> fused(Val y) {
    graph.outputs = {y.id};
    graph.output_names = {"y"};
    fuse(graph);
    std::vector<Kind> kinds;
    for (const core::Op& op : graph.ops) kinds.push_back(op.kind);
    return kinds;
  }
  Val erf(Val v) { return b.op(core::kErf, {v}); }
  Val bend(double root) { return b.add(erf(b.div(x, root)), 1); }
  const std::vector<Kind> only_gelu{Kind::kGelu};
};

TEST_F(Gelu, FactorsInAnyOrder) {
  EXPECT_EQ(fused(b.mul(b.mul(x, bend(std::sqrt(2.0))), 0.5)), only_gelu);
  EXPECT_EQ(fused(b.mul(b.mul(x, 0.5), bend(std::sqrt(2.0)))), only_gelu);
  EXPECT_EQ(fused(b.mul(x, b.mul(bend(std::sqrt(2.0)), 0.5))), only_gelu);
}

TEST_F(Gelu, ByTanh) {
  Val cube = b.mul(x, b.mul(x, x));
  Val argument = b.mul(b.add(x, b.mul(cube, 0.044715)), std::sqrt(2 / M_PI));
  EXPECT_EQ(fused(b.mul(b.mul(x, b.add(b.tanh(argument), 1)), 0.5)), only_gelu);
  EXPECT_TRUE(std::get<core::GeluOptions>(graph.ops[0].options).approximate);
}

TEST_F(Gelu, OtherNumbersAreNoGelu) {
  EXPECT_NE(fused(b.mul(b.mul(x, bend(1.5)), 0.5)), only_gelu);
  EXPECT_NE(fused(b.mul(b.mul(x, bend(std::sqrt(2.0))), 0.25)), only_gelu);
}

TEST_F(Gelu, AnErfThatIsUsedElsewhereStays) {
  Val e = bend(std::sqrt(2.0));
  EXPECT_NE(fused(b.add(b.mul(b.mul(x, e), 0.5), e)), only_gelu);
  core::expand_intermediate(graph);
  graph.tidy();
  for (const core::Op& op : graph.ops) EXPECT_NE(op.kind, core::kErf);
}

}  // namespace
}  // namespace lowtide::layout
