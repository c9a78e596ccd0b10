// SPDX-License-Identifier: Apache-2.0
// Inputs and outputs: layouts that the user requested, and outputs that are inputs, constants or equal to each other.
#include "layout/legalise/outputs.h"

#include <gtest/gtest.h>

#include <set>

#include "layout/settle/pin_layouts.h"
#include "stream/error.h"
#include "tests/layout/built_graph.h"

namespace lowtide::layout {
namespace {

using core::DType;
using core::Shape;
using core::Val;

struct Border : BuiltGraph {
  Val x{graph.add_value(DType::kFloat32, {2, 3, 5, 7}, "x")};

  void outputs(std::vector<Val> list, bool is_main = true) {
    graph.inputs = {x.id};
    graph.input_names = {"x"};
    for (Val y : list) {
      graph.outputs.push_back(y.id);
      graph.output_names.push_back("y" + std::to_string(graph.outputs.size()));
    }
    if (is_main) {
      separate_outputs(graph, true);
      graph.tidy();
    }
  }
  const core::Value& out(size_t i) const { return graph.at(graph.outputs[i]); }
};

TEST_F(Border, EachOutputHasAnOpAndItsName) {
  Val t = b.tanh(x);
  outputs({x, t, b.filled(1, DType::kInt32, {5}), t});
  EXPECT_EQ(std::set<core::ValueId>(graph.outputs.begin(), graph.outputs.end()).size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_GE(out(i).producer, 0);
    EXPECT_EQ(out(i).name, graph.output_names[i]);
  }
  EXPECT_EQ(graph.at(graph.inputs[0]).name, "x");
  EXPECT_EQ(out(2).dtype, DType::kInt32);
}

TEST_F(Border, AnotherValueWithAnOutputsNameIsRenamed) {
  Val t = b.tanh(x);
  graph.at(t.id).name = "y1";
  outputs({b.exp(t), b.abs(t)});
  int named = 0;
  for (const core::Value& value : graph.values) named += value.name == "y1";
  EXPECT_EQ(named, 1);
  EXPECT_EQ(out(0).name, "y1");
}

TEST_F(Border, LoopBodiesMayReturnTheirInputs) {
  outputs({x}, false);
  separate_outputs(graph, false);
  EXPECT_TRUE(graph.ops.empty());
}

TEST_F(Border, PinnedLayoutsInsertTransposes) {
  outputs({b.tanh(x)}, false);
  pin_layouts(graph, {{"x", "nhwc"}, {"y1", "nhwc"}});
  graph.tidy();
  EXPECT_EQ(graph.at(graph.inputs[0]).shape, (Shape{2, 5, 7, 3}));
  EXPECT_EQ(graph.at(graph.inputs[0]).name, "x");
  EXPECT_EQ(out(0).shape, (Shape{2, 5, 7, 3}));
  EXPECT_EQ(graph.ops.size(), 3u);
}

TEST_F(Border, APinnedInputThatIsAnOutputKeepsTheOutputsLayout) {
  outputs({x}, false);
  pin_layouts(graph, {{"x", "nhwc"}});
  EXPECT_EQ(out(0).shape, (Shape{2, 3, 5, 7}));
}

TEST_F(Border, ImpossibleLayoutsAreErrors) {
  outputs({b.tanh(x), b.mean(x, std::vector<int>{0, 1}, false)}, false);
  EXPECT_THROW(pin_layouts(graph, {{"z", "nhwc"}}), stream::Error);
  EXPECT_THROW(pin_layouts(graph, {{"x", "chwn"}}), stream::Error);
  EXPECT_THROW(pin_layouts(graph, {{"y2", "nhwc"}}), stream::Error);
}

}  // namespace
}  // namespace lowtide::layout
