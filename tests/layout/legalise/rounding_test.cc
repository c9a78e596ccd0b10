// SPDX-License-Identifier: Apache-2.0
// QUANTIZE becomes ops that round by ONNX's rule. What they compute is judged by running them
// (tests/oracle/cases_quantize.py).
#include <gtest/gtest.h>

#include <limits>

#include "layout/legalise/legalise.h"
#include "tests/layout/built_graph.h"

namespace lowtide::layout {
namespace {

using core::DType;
using core::Kind;
using core::Val;

struct WrittenOut : BuiltGraph {
  Val input(core::Shape shape) {
    const Val x{graph.add_value(DType::kFloat32, std::move(shape))};
    graph.inputs.push_back(x.id);
    return x;
  }
  Val quantize(Val x, float scale, int64_t zero, DType to) {
    const Val q = b.op(Kind::kQuantize, {x}, core::IndexOptions{to});
    graph.at(q.id).quantization = core::Quantization{{scale}, {zero}, 0};
    return q;
  }
  Val dequantize(Val q) { return b.op(Kind::kDequantize, {q}, core::IndexOptions{DType::kFloat32}); }
  std::vector<Kind> legal(std::vector<Val> outputs) {
    for (Val v : outputs) graph.outputs.push_back(v.id);
    EXPECT_TRUE(legalise(graph).empty());
    graph.tidy();
    std::vector<Kind> kinds;
    for (const core::Op& op : graph.ops) kinds.push_back(op.kind);
    return kinds;
  }
  std::vector<double> operand(size_t op) { return *graph.numbers(graph.ops[op].inputs[1]); }
};
using KindList = std::vector<Kind>;

TEST_F(WrittenOut, TheZeroPointIsAddedAfterClamping) {
  const Val q = quantize(input({2, 3}), 0.5f, -7, DType::kInt8);
  EXPECT_EQ(legal({b.op(Kind::kBitcast, {q}, core::IndexOptions{DType::kInt8})}),
            (KindList{Kind::kDiv, Kind::kRound, Kind::kMaximum, Kind::kMinimum, Kind::kAdd, Kind::kCast}));
  EXPECT_EQ(operand(0), std::vector<double>{0.5});
  EXPECT_EQ(operand(2), std::vector<double>{-121});
  EXPECT_EQ(operand(3), std::vector<double>{134});
  EXPECT_EQ(operand(4), std::vector<double>{-7});
  EXPECT_FALSE(graph.at(graph.outputs[0]).quantization);
}

TEST_F(WrittenOut, QuantizeThenDequantizeStaysInFloats) {
  EXPECT_EQ(legal({dequantize(quantize(input({2, 3}), 0.5f, 100, DType::kUint8))}),
            (KindList{Kind::kDiv, Kind::kRound, Kind::kMaximum, Kind::kMinimum, Kind::kMul}));
  EXPECT_EQ(operand(2), std::vector<double>{-100});
  EXPECT_EQ(operand(3), std::vector<double>{155});
  EXPECT_EQ(operand(4), std::vector<double>{0.5});
}

// The op between the two needs integers that still have their parameters.
TEST_F(WrittenOut, MovedIntegersAreDequantizedByTheKernel) {
  const Val q = quantize(input({2, 3}), 0.5f, 100, DType::kUint8);
  const Val moved = b.transpose(q, {1, 0});
  graph.at(moved.id).quantization = graph.at(q.id).quantization;
  EXPECT_EQ(legal({dequantize(moved)}), (KindList{Kind::kDiv, Kind::kRound, Kind::kMaximum, Kind::kMinimum, Kind::kAdd,
                                                  Kind::kCast, Kind::kTranspose, Kind::kDequantize}));
  EXPECT_TRUE(graph.at(graph.ops[5].outputs[0]).quantization);
}

// Numbers of 2^31 steps and more would become the least integer.
TEST_F(WrittenOut, FloatsThatNothingLimitsToSixteenBits) {
  const Val q = quantize(input({2, 3}), 0.5f, 3, DType::kInt8);
  const Val sum = b.add(q, q);
  graph.at(sum.id).quantization = core::Quantization{{1.0f}, {3}, 0};
  const Val any = quantize(b.exp(input({2, 3})), 0.5f, 0, DType::kInt16);
  const Val limited = quantize(b.reshape(b.tanh(input({2, 3})), {3, 2}), 0.001f, 0, DType::kInt16);
  EXPECT_EQ(legal({sum, any, limited}), (KindList{Kind::kQuantize, Kind::kAdd, Kind::kExp, Kind::kMinimum,
                                                  Kind::kQuantize, Kind::kTanh, Kind::kReshape, Kind::kQuantize}));
}

// The last step of such a scale is no float: a MINIMUM with infinity would be limited again and again.
TEST_F(WrittenOut, TheLimitOfTheLargestScaleIsTheLargestFloat) {
  const float most = std::numeric_limits<float>::max();
  const Val q = quantize(input({2, 3}), 0.5f, 3, DType::kInt8);
  const Val sum = b.add(q, q);
  graph.at(sum.id).quantization = core::Quantization{{1.0f}, {3}, 0};
  const Val any = quantize(b.exp(input({2, 3})), most / 32766.5f, 0, DType::kInt16);
  EXPECT_EQ(legal({sum, any}), (KindList{Kind::kQuantize, Kind::kAdd, Kind::kExp, Kind::kMinimum, Kind::kQuantize}));
  EXPECT_EQ(operand(3), std::vector<double>{most});
}

TEST_F(WrittenOut, IntegersOfAMuchLargerScale) {
  const Val q = quantize(input({2, 3}), 1.0f, 0, DType::kInt8);
  const Val sum = b.add(q, q);
  graph.at(sum.id).quantization = core::Quantization{{2.0f}, {0}, 0};
  const Val floats = dequantize(sum);
  const Val far = quantize(floats, 0x1p-24f, 0, DType::kInt8), near = quantize(floats, 0x1p-9f, 0, DType::kInt8);
  EXPECT_EQ(legal({far, near}), (KindList{Kind::kQuantize, Kind::kAdd, Kind::kDequantize, Kind::kMinimum,
                                          Kind::kQuantize, Kind::kQuantize}));
}

TEST_F(WrittenOut, RequantizationStaysAKernel) {
  const Val q{graph.add_value(DType::kInt8, {2, 3})};
  graph.inputs.push_back(q.id);
  graph.at(q.id).quantization = core::Quantization{{0.25f}, {3}, 0};
  EXPECT_EQ(legal({quantize(q, 0.5f, 0, DType::kUint8)}), (KindList{Kind::kQuantize}));
}

}  // namespace
}  // namespace lowtide::layout
