#include <gtest/gtest.h>

#include "layout/builder.h"
#include "layout/fuse.h"

namespace lowtide::layout {
namespace {

using core::Builder;
using core::DType;
using core::Kind;
using core::Val;

struct HardSwish : testing::Test {
  stream::Budget budget{16 << 20};
  core::Symbols symbols;
  core::Graph graph{symbols, budget};
  Builder b{graph};
  Val x{graph.add_value(DType::kFloat32, {2, 3, 5}, "x")};

  void SetUp() override {
    graph.inputs = {x.id};
    graph.input_names = {"x"};
  }
  bool found(Val y) {
    graph.outputs = {y.id};
    graph.output_names = {"y"};
    fuse(graph);
    return graph.ops.size() == 1 && graph.ops[0].kind == Kind::kHardSwish;
  }
};

TEST_F(HardSwish, FactorsInAnyOrder) {
  EXPECT_TRUE(found(b.mul(x, b.div(b.relu6(b.add(x, 3)), 6))));
  EXPECT_TRUE(found(b.div(b.mul(b.relu6(b.add(x, 3)), x), 6)));
  EXPECT_TRUE(found(b.mul(b.mul(x, b.relu6(b.add(x, 3))), 1.0 / 6)));
  EXPECT_TRUE(found(b.mul(b.relu_0_to_1(b.add(b.mul(x, 1.0 / 6), 0.5)), x)));
}

TEST_F(HardSwish, OtherNumbersAreNone) {
  EXPECT_FALSE(found(b.mul(x, b.div(b.relu6(b.add(x, 2)), 6))));
  EXPECT_FALSE(found(b.mul(x, b.div(b.relu6(b.add(x, 3)), 5))));
  EXPECT_FALSE(found(b.mul(x, b.div(b.relu(b.add(x, 3)), 6))));
  EXPECT_FALSE(found(b.mul(x, b.relu_0_to_1(b.add(b.mul(x, 0.2), 0.5)))));
  Val other = b.tanh(x);
  EXPECT_FALSE(found(b.mul(other, b.div(b.relu6(b.add(x, 3)), 6))));
}

}  // namespace
}  // namespace lowtide::layout
