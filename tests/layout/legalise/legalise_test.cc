// SPDX-License-Identifier: Apache-2.0
#include "layout/legalise/legalise.h"

#include <gtest/gtest.h>

#include "layout/core/builder.h"
#include "layout/legalise/element_types.h"

namespace lowtide::layout {
namespace {

using core::Builder;
using core::DType;
using core::Kind;
using core::Shape;
using core::Val;

struct Legalise : testing::Test {
  stream::Budget budget{16 << 20};
  core::Symbols symbols;
  core::Graph graph{symbols, budget};
  Builder b{graph};

  Val input(DType dtype, Shape shape) {
    graph.inputs.push_back(graph.add_value(dtype, std::move(shape), "in" + std::to_string(graph.inputs.size())));
    graph.input_names.push_back(graph.at(graph.inputs.back()).name);
    return {graph.inputs.back()};
  }
  void output(Val v) {
    graph.outputs.push_back(v.id);
    graph.output_names.push_back("out" + std::to_string(graph.outputs.size()));
  }
  std::vector<Kind> kinds() {
    EXPECT_TRUE(legalise(graph).empty());
    graph.tidy();
    std::vector<Kind> out;
    for (const core::Op& op : graph.ops) out.push_back(op.kind);
    return out;
  }
};

TEST_F(Legalise, SupportedOpsDoNotChange) {
  Val x = input(DType::kInt64, {2, 3});
  output(b.maximum(b.add(x, x), b.scalar(7, DType::kInt64)));
  EXPECT_EQ(kinds(), (std::vector<Kind>{Kind::kAdd, Kind::kMaximum}));
  EXPECT_EQ(graph.at(graph.outputs[0]).dtype, DType::kInt64);
}

TEST_F(Legalise, ADoubleNetworkIsNarrowedOnceAndWidenedOnce) {
  Val x = input(DType::kFloat64, {2, 3, 5});
  Val y = b.logistic(b.transpose(b.mul(x, b.filled(0.5, DType::kFloat64, {5})), {2, 0, 1}));
  output(b.reshape(b.exp(y), {10, 3}));
  EXPECT_EQ(kinds(), (std::vector<Kind>{Kind::kCast, Kind::kMul, Kind::kTranspose, Kind::kLogistic, Kind::kExp,
                                        Kind::kReshape, Kind::kCast}));
  EXPECT_EQ(graph.at(graph.inputs[0]).dtype, DType::kFloat64);
  EXPECT_EQ(graph.at(graph.outputs[0]).dtype, DType::kFloat64);
}

TEST_F(Legalise, NarrowIntegersWrapBetweenTwoOps) {
  Val x = input(DType::kInt8, {2, 3});
  output(b.add(b.mul(x, x), x));
  EXPECT_EQ(kinds(), (std::vector<Kind>{Kind::kCast, Kind::kMul, Kind::kCast, Kind::kCast, Kind::kAdd, Kind::kCast}));
}

TEST_F(Legalise, IntegersOfFourBitsAreMovedAsFloats) {
  output(b.transpose(input(DType::kUint4, {2, 3, 5}), {2, 0, 1}));
  EXPECT_EQ(kinds(), (std::vector<Kind>{Kind::kCast, Kind::kTranspose, Kind::kCast}));
  EXPECT_EQ(graph.at(graph.ops[1].outputs[0]).dtype, DType::kFloat32);
  EXPECT_EQ(compute_type(Kind::kTranspose, DType::kInt4)->dtype, DType::kInt4);
  EXPECT_FALSE(compute_type(Kind::kAdd, DType::kUint4));
}

TEST_F(Legalise, UnsignedIntegersAreComputedInSignedOnes) {
  EXPECT_EQ(compute_type(Kind::kAdd, DType::kUint64)->passage, Passage::kBits);
  EXPECT_EQ(compute_type(Kind::kLess, DType::kUint64)->passage, Passage::kOrdered);
  EXPECT_FALSE(compute_type(Kind::kDiv, DType::kUint64));
  EXPECT_EQ(compute_type(Kind::kDiv, DType::kInt64)->dtype, DType::kInt32);
  EXPECT_EQ(compute_type(Kind::kAdd, DType::kUint32)->dtype, DType::kInt64);
  EXPECT_FALSE(compute_type(Kind::kExp, DType::kInt32));
  EXPECT_TRUE(is_exact(DType::kUint16, DType::kInt32));
  EXPECT_FALSE(is_exact(DType::kUint32, DType::kInt32));
  EXPECT_FALSE(is_exact(DType::kFloat64, DType::kFloat32));
}

TEST_F(Legalise, AdjacentReducedAxesAreMerged) {
  Val x = input(DType::kFloat32, {2, 3, 1, 5, 2, 7, 3});
  const int axes[] = {3, 4};
  output(b.sum(x, axes, true));
  EXPECT_EQ(kinds(), (std::vector<Kind>{Kind::kReshape, Kind::kSum, Kind::kReshape}));
  EXPECT_EQ(graph.at(graph.ops[1].inputs[0]).shape, (Shape{6, 10, 21}));
  EXPECT_EQ(graph.at(graph.ops[1].outputs[0]).shape, (Shape{6, 21}));
  EXPECT_EQ(graph.at(graph.outputs[0]).shape, (Shape{2, 3, 1, 1, 1, 7, 3}));
}

TEST_F(Legalise, ADynamicBatchAxisIsMerged) {
  Val x = input(DType::kFloat32, {symbols.named("N"), 3, 1, 5, 2, 7, 3});
  output(b.softmax(x));
  EXPECT_EQ(kinds(), (std::vector<Kind>{Kind::kReshape, Kind::kSoftmax, Kind::kReshape}));
  EXPECT_EQ(graph.at(graph.ops[1].inputs[0]).rank(), 2);
}

TEST_F(Legalise, UnsupportedOpsAreReportedWithTheirNode) {
  graph.origins.push_back("node_7");
  b.origin = 1;
  output(b.exp(input(DType::kInt32, {2})));
  output(b.cumsum(input(DType::kFloat32, Shape(9, 2)), 3, false, false));
  std::vector<stream::Unsupported> refused = legalise(graph);
  ASSERT_EQ(refused.size(), 2u);
  EXPECT_EQ(refused[0].where().node, "node_7");
  EXPECT_NE(refused[0].reason().find("EXP takes i32"), std::string::npos) << refused[0].reason();
  EXPECT_NE(refused[1].reason().find("rank 9"), std::string::npos) << refused[1].reason();
}

TEST_F(Legalise, OperandsOfKernelsWithoutBroadcastingAreExpanded) {
  Val x = input(DType::kFloat32, {symbols.named("N"), 3});
  output(b.atan2(x, b.scalar(1, DType::kFloat32)));
  std::vector<Kind> made = kinds();
  EXPECT_EQ(made.back(), Kind::kAtan2);
  EXPECT_EQ(graph.at(graph.ops.back().inputs[1]).shape, graph.at(graph.ops.back().inputs[0]).shape);
}

}  // namespace
}  // namespace lowtide::layout
