// SPDX-License-Identifier: Apache-2.0
#include "layout/merge_equal.h"

#include <gtest/gtest.h>

#include "tests/layout/built_graph.h"

namespace lowtide::layout {
namespace {

using core::DType;
using core::Kind;
using core::Val;

struct MergeEqual : BuiltGraph {
  Val x{graph.add_value(DType::kFloat32, {2, 3}, "x")};

  size_t merged(std::vector<Val> outputs) {
    graph.inputs = {x.id};
    graph.outputs.clear();
    for (Val y : outputs) graph.outputs.push_back(y.id);
    merge_equal(graph);
    return graph.ops.size();
  }
  Val constant(float element, core::Shape shape) {
    const std::vector<float> elements(stream::element_count(shape), element);
    return b.constant(stream::recipe::floats(elements, std::move(shape)));
  }
};

TEST_F(MergeEqual, EqualOpsOnEqualConstantsAreMerged) {
  EXPECT_EQ(merged({b.tanh(b.add(x, constant(2, {3}))), b.tanh(b.add(x, constant(2, {3})))}), 2u);
  EXPECT_EQ(graph.outputs[0], graph.outputs[1]);
}

TEST_F(MergeEqual, DifferentElementsShapesAndSignsOfZeroAreNotMerged) {
  EXPECT_EQ(merged({b.add(x, constant(2, {3})), b.add(x, constant(3, {3}))}), 2u);
  EXPECT_EQ(merged({b.add(x, constant(2, {3})), b.add(x, constant(2, {1, 3}))}), 2u);
  EXPECT_EQ(merged({b.div(x, constant(0, {3})), b.div(x, constant(-0.0F, {3}))}), 2u);
}

TEST_F(MergeEqual, DifferentOptionsAndOperandOrdersAreNotMerged) {
  EXPECT_EQ(merged({b.leaky_relu(x, 0.1F), b.leaky_relu(x, 0.2F)}), 2u);
  EXPECT_EQ(merged({b.sub(x, constant(2, {3})), b.sub(constant(2, {3}), x)}), 2u);
  EXPECT_EQ(merged({b.cast(x, DType::kInt32), b.cast(x, DType::kInt64)}), 2u);
}

TEST_F(MergeEqual, DifferentScalesAreNotMerged) {
  Val q = b.op(Kind::kQuantize, {x}, core::IndexOptions{DType::kInt8});
  Val r = b.op(Kind::kQuantize, {x}, core::IndexOptions{DType::kInt8});
  graph.at(q.id).quantization = core::Quantization{{0.5F}, {3}, 0};
  graph.at(r.id).quantization = core::Quantization{{0.25F}, {3}, 0};
  EXPECT_EQ(merged({q, r}), 2u);
  graph.at(r.id).quantization = graph.at(q.id).quantization;
  EXPECT_EQ(merged({q, r}), 1u);
}

TEST_F(MergeEqual, AllOutputsOfAnOpAreMerged) {
  const int64_t sizes[] = {1, 2};
  std::vector<Val> one = b.split(x, sizes, 1), two = b.split(x, sizes, 1);
  EXPECT_EQ(merged({b.tanh(one[0]), b.tanh(two[1]), b.exp(two[0])}), 4u);
}

}  // namespace
}  // namespace lowtide::layout
