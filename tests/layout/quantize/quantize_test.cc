// SPDX-License-Identifier: Apache-2.0
// Which ops the pass draws into integer kernels. What the kernels compute is judged by running them
// (tests/oracle/cases_qdq.py); here: the forms, and the reasons of those that stay float.
#include "layout/quantize/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tests/layout/built_graph.h"

namespace lowtide::layout {
namespace {

using core::DType;
using core::Kind;
using core::Val;
namespace recipe = stream::recipe;

struct Quantized : BuiltGraph {
  Val floats(core::Shape shape) {
    const Val x{graph.add_value(DType::kFloat32, std::move(shape))};
    graph.inputs.push_back(x.id);
    return x;
  }
  Val quantize_to(Val x, float scale, int64_t zero, DType to = DType::kInt8) {
    const Val q = b.op(Kind::kQuantize, {x}, core::IndexOptions{to});
    graph.at(q.id).quantization = core::Quantization{{scale}, {zero}, 0};
    return q;
  }
  Val dequantize(Val q) { return b.op(Kind::kDequantize, {q}, core::IndexOptions{DType::kFloat32}); }
  // What was quantized before, as floats.
  Val given(core::Shape shape, float scale, int64_t zero, DType to = DType::kInt8) {
    return dequantize(quantize_to(floats(std::move(shape)), scale, zero, to));
  }
  Val weights(core::Shape shape, DType dtype, std::vector<float> scale, int64_t zero, int axis) {
    const std::vector<int64_t> zeros(scale.size(), zero);
    const auto integers = recipe::broadcast(recipe::ints(std::array<int64_t, 2>{3, 5}, dtype, {2}), std::move(shape));
    return b.constant(recipe::dequantize(integers, std::move(scale), zeros, axis));
  }
  // Of rows of `length`, an even number: the pair again and again.
  Val long_weights(core::Dim length, std::array<int64_t, 2> pair) {
    const auto all = recipe::broadcast(recipe::ints(pair, DType::kInt8, {2}), {3 * length / 2, 2});
    return b.constant(recipe::dequantize(recipe::reshape(all, {3, length}), {0.1f}, {0}, -1));
  }
  std::vector<Kind> run(std::vector<Val> outputs, bool tables = false) {
    for (Val v : outputs) graph.outputs.push_back(v.id);
    quantize(graph, true, report, tables);
    std::vector<Kind> kinds;
    for (const core::Op& op : graph.ops) kinds.push_back(op.kind);
    return kinds;
  }
  const core::Value& result(size_t op) { return graph.at(graph.ops[op].outputs[0]); }
  core::IntegerReport report;
};
using KindList = std::vector<Kind>;

TEST_F(Quantized, AnElementwiseOpComputesOnIntegers) {
  const Val y = b.add(given({2, 3}, 0.5f, 3), given({2, 3}, 0.25f, -7));
  EXPECT_EQ(run({dequantize(quantize_to(y, 0.6f, 11))}),
            (KindList{Kind::kQuantize, Kind::kQuantize, Kind::kAdd, Kind::kDequantize}));
  EXPECT_EQ(result(2).dtype, DType::kInt8);
  EXPECT_EQ(result(2).quantization->scale, std::vector<float>{0.6f});
  EXPECT_EQ(result(2).quantization->zero_point, std::vector<int64_t>{11});
  EXPECT_EQ(report.operators, 1u);
  EXPECT_TRUE(report.islands.empty());
}

TEST_F(Quantized, UnsignedDataWithSymmetricWeightsBecomesSigned) {
  const Val y = b.fully_connected(given({4, 2}, 0.5f, 121, DType::kUint8), weights({3, 2}, DType::kInt8, {0.1f}, 0, -1),
                                  {}, true);
  EXPECT_EQ(run({dequantize(quantize_to(y, 0.6f, 100, DType::kUint8))}),
            (KindList{Kind::kQuantize, Kind::kFullyConnected, Kind::kDequantize}));
  EXPECT_EQ(result(0).dtype, DType::kInt8);
  EXPECT_EQ(result(0).quantization->zero_point, std::vector<int64_t>{-7});
  EXPECT_EQ(result(1).quantization->zero_point, std::vector<int64_t>{-28});
}

TEST_F(Quantized, WeightsWithAZeroPointAreUnsigned) {
  const Val y = b.fully_connected(given({4, 2}, 0.5f, 3), weights({3, 2}, DType::kInt8, {0.1f}, 5, -1), {}, true);
  run({dequantize(quantize_to(y, 0.6f, 0))});
  EXPECT_EQ(result(1).dtype, DType::kUint8);
  EXPECT_EQ(graph.at(graph.ops[1].inputs[1]).dtype, DType::kUint8);
  EXPECT_EQ(graph.at(graph.ops[1].inputs[1]).quantization->zero_point, std::vector<int64_t>{133});
}

TEST_F(Quantized, ConversionsPassOpsThatOnlyMoveElements) {
  const Val y = b.transpose(b.relu(given({2, 3}, 0.5f, 3)), {1, 0});
  EXPECT_EQ(run({dequantize(quantize_to(y, 0.6f, 11))}),
            (KindList{Kind::kQuantize, Kind::kRelu, Kind::kTranspose, Kind::kDequantize}));
}

TEST_F(Quantized, AClipToOneIsTwoLimitsOnTheGridOfItsResult) {
  const Val y = b.relu_0_to_1(given({2, 3}, 0.02f, 3));
  EXPECT_EQ(run({dequantize(quantize_to(y, 0.02f, 3))}),
            (KindList{Kind::kQuantize, Kind::kMaximum, Kind::kMinimum, Kind::kDequantize}));
  EXPECT_EQ(graph.ints(graph.ops[1].inputs[1]), (std::vector<int64_t>{3}));
  EXPECT_EQ(graph.ints(graph.ops[2].inputs[1]), (std::vector<int64_t>{53}));
  EXPECT_TRUE(report.islands.empty());
}

TEST_F(Quantized, AGridFromZeroToOneIsTheClip) {
  const Val y = b.relu_0_to_1(b.add(given({2, 3}, 0.5f, 3), given({2, 3}, 0.25f, -7)));
  EXPECT_EQ(run({dequantize(quantize_to(y, 1.0f / 255, -128))}),
            (KindList{Kind::kQuantize, Kind::kQuantize, Kind::kAdd, Kind::kDequantize}));
}

TEST_F(Quantized, AClipOfFloatsToOneStays) {
  const Val y = b.relu_0_to_1(b.sin(given({2, 3}, 0.5f, 3)));
  EXPECT_EQ(
      run({dequantize(quantize_to(y, 0.02f, 3))}),
      (KindList{Kind::kQuantize, Kind::kDequantize, Kind::kSin, Kind::kRelu0To1, Kind::kQuantize, Kind::kDequantize}));
}

TEST_F(Quantized, AConcatenationRescalesEachPart) {
  const Val y = b.concat({given({2, 3}, 0.5f, 3), given({2, 3}, 0.25f, -7)}, 1);
  EXPECT_EQ(run({dequantize(quantize_to(y, 0.5f, 3))}),
            (KindList{Kind::kQuantize, Kind::kQuantize, Kind::kMul, Kind::kConcatenation, Kind::kDequantize}));
  EXPECT_EQ(report.rescales, 1u);
}

// 0.75 / 0.5 has a fraction; from 0.25 to 0.125 nothing is rounded.
TEST_F(Quantized, ARescaleThatRoundsIsAProductWithOne) {
  const Val y = b.concat({given({2, 3}, 0.75f, 3), given({2, 3}, 0.5f, -7, DType::kUint8)}, 1);
  run({dequantize(quantize_to(y, 0.5f, 3))});
  const auto product =
      std::find_if(graph.ops.begin(), graph.ops.end(), [](const core::Op& op) { return op.kind == Kind::kMul; });
  ASSERT_NE(product, graph.ops.end());
  const core::Value& one = graph.at(product->inputs[1]);
  EXPECT_EQ(one.quantization->scale, std::vector<float>{1.0f / 128});
  EXPECT_EQ((*graph.numbers(product->inputs[1]))[0] - static_cast<double>(one.quantization->zero_point[0]), 128);
  EXPECT_EQ(std::count_if(graph.ops.begin(), graph.ops.end(), [](const core::Op& op) { return op.kind == Kind::kMul; }),
            1);
  EXPECT_EQ(report.rescales, 2u);
}

TEST_F(Quantized, WhatHasNoKernelStaysFloatWithAReason) {
  const Val y = b.div(given({2, 3}, 0.5f, 3), given({2, 3}, 0.25f, -7));
  EXPECT_EQ(run({dequantize(quantize_to(y, 0.6f, 11))}),
            (KindList{Kind::kQuantize, Kind::kDequantize, Kind::kQuantize, Kind::kDequantize, Kind::kDiv,
                      Kind::kQuantize, Kind::kDequantize}));
  ASSERT_EQ(report.islands.size(), 1u);
  EXPECT_EQ(report.islands[0].reason, "LiteRT has no exact integer kernel of DIV");
}

// The largest sum of products is 32768 * (3 + 5); the second bias is 2147400000 steps, close below 2^31.
TEST_F(Quantized, ABiasBesideSixteenBitsHasTheBitsOfTheSums) {
  for (const auto& [offset, wanted] : {std::pair{0.5f, DType::kInt32}, {2147400.0f, DType::kInt64}}) {
    const Val bias = b.constant(recipe::floats(std::array<float, 3>{1.0f, offset, -3.0f}, {3}));
    const Val y = b.fully_connected(given({4, 2}, 0.01f, 0, DType::kInt16),
                                    weights({3, 2}, DType::kInt8, {0.1f}, 0, -1), bias, true);
    graph.outputs.clear();
    run({dequantize(quantize_to(y, 0.6f, 0, DType::kInt16))});
    const auto made = std::find_if(graph.ops.begin(), graph.ops.end(),
                                   [](const core::Op& op) { return op.kind == Kind::kFullyConnected; });
    ASSERT_NE(made, graph.ops.end());
    EXPECT_EQ(graph.at(made->inputs[2]).dtype, wanted);
  }
}

// Without a bias the kernel sums data of 16 bits in 32 bits.
TEST_F(Quantized, AProductOfSixteenBitsWithoutABiasGetsOneOfZeros) {
  for (const auto& [length, wanted] : {std::pair{core::Dim{64}, DType::kInt32}, {core::Dim{1024}, DType::kInt64}}) {
    const Val y =
        b.fully_connected(given({4, length}, 0.01f, 0, DType::kInt16), long_weights(length, {99, 100}), {}, true);
    graph.outputs.clear();
    run({dequantize(quantize_to(y, 30.0f, 0, DType::kInt16))});
    const auto made = std::find_if(graph.ops.begin(), graph.ops.end(),
                                   [](const core::Op& op) { return op.kind == Kind::kFullyConnected; });
    ASSERT_NE(made, graph.ops.end());
    ASSERT_EQ(made->inputs.size(), 3u);
    EXPECT_EQ(graph.at(made->inputs[2]).dtype, wanted);
    EXPECT_EQ(graph.numbers(made->inputs[2]), std::vector<double>(3, 0));
  }
}

// 70000 terms of 255 * 128 are too many; what counts in the end is the sum of the weights' magnitudes.
TEST_F(Quantized, SumsThatMayLeave32BitsStayFloat) {
  auto product = [&](std::array<int64_t, 2> pair) {
    const Val x = given({4, 70000}, 0.01f, 0, DType::kUint8);
    graph.outputs.clear();
    run({dequantize(quantize_to(b.fully_connected(x, long_weights(70000, pair), {}, true), 900.0f, 0))});
  };
  product({3, -5});
  EXPECT_EQ(report.operators, 1u);
  EXPECT_TRUE(report.islands.empty());
  product({127, 125});
  ASSERT_EQ(report.islands.size(), 1u);
  EXPECT_EQ(report.islands[0].reason, "its sums or products may be up to 2.2491e+09, and kernels keep 32 bits of them");
}

// Half of 2^32 is the largest bias: there is no room beside it.
TEST_F(Quantized, ABiasThatFills32BitsStaysFloat) {
  const Val bias = b.constant(recipe::floats(std::array<float, 3>{1.0f, 2147483.0f, -3.0f}, {3}));
  const Val y = b.fully_connected(given({4, 2}, 0.01f, 0), weights({3, 2}, DType::kInt8, {0.1f}, 0, -1), bias, true);
  run({dequantize(quantize_to(y, 0.6f, 0))});
  ASSERT_EQ(report.islands.size(), 1u);
  EXPECT_EQ(report.islands[0].reason.rfind("its sums or products may be up to 2.14748e+09", 0), 0u);
}

TEST_F(Quantized, MeansOfTooManyElementsStayFloat) {
  const Val x = given({1, 300, 301, 2}, 0.5f, 0, DType::kInt16);
  const Val mean = b.op(Kind::kMean, {x, b.i32({1, 2})}, core::ReduceOptions{});
  const Val pool = b.average_pool_2d(x, {.filter_h = 300, .filter_w = 301});
  run({quantize_to(mean, 0.5f, 0, DType::kInt16), quantize_to(pool, 0.5f, 0, DType::kInt16)});
  ASSERT_EQ(report.islands.size(), 2u);
  for (const auto& island : report.islands)
    EXPECT_EQ(island.reason, "its sums or products may be up to 2.95895e+09, and kernels keep 32 bits of them");
}

// A tensor has less than 2^31 elements: with 256 channels, no sum of bytes of one of them leaves 32 bits.
TEST_F(Quantized, MeansOfUnknownLengthAreLimitedByTheirChannels) {
  for (const core::Dim channels : {256, 64}) {
    const Val x = given({1, symbols.named("H"), symbols.named("W"), channels}, 0.5f, 0, DType::kUint8);
    const Val mean = b.op(Kind::kMean, {x, b.i32({1, 2})}, core::ReduceOptions{});
    report = {};
    graph.outputs.clear();
    run({dequantize(quantize_to(mean, 0.25f, 0, DType::kUint8))});
    EXPECT_EQ(report.operators, channels == 256 ? 1u : 0u);
    EXPECT_EQ(report.islands.size(), channels == 256 ? 0u : 1u);
  }
}

// Scores of as many rows as columns: of each there are fewer than the square root of 2^31.
TEST_F(Quantized, ProductsOfUnknownLengthAreLimitedByTheirRows) {
  for (const char* rows : {"T", "S"}) {
    const Val scores = given({12, symbols.named(rows), symbols.named("T")}, 1.0f / 256, -128);
    const Val values = given({12, symbols.named("T"), 64}, 0.01f, 3);
    report = {};
    graph.outputs.clear();
    run({dequantize(quantize_to(b.batch_matmul(scores, values), 0.01f, 0))});
    EXPECT_EQ(report.operators, *rows == 'T' ? 1u : 0u);
  }
}

// Products are multiplied by 4 before they are rounded.
TEST_F(Quantized, ProductsThatMayLeave32BitsStayFloat) {
  const Val y = b.mul(given({2, 3}, 1.0f / 128, 0, DType::kInt16), given({2, 3}, 2.0f, 0, DType::kInt16));
  run({dequantize(quantize_to(y, 1.0f / 128, 0, DType::kInt16))});
  ASSERT_EQ(report.islands.size(), 1u);
  EXPECT_EQ(report.islands[0].reason,
            "its sums or products may be up to 1.07374e+09, and kernels keep 32 bits of 4 times that");
}

TEST_F(Quantized, ScalesTooFarApartAreNotRescaledInIntegers) {
  auto rescaled = [&](float scale) {
    const Val y = quantize_to(given({2, 3}, 1.0f, 0, DType::kInt16), scale, 0, DType::kInt16);
    graph.outputs.clear();
    return run({y});
  };
  EXPECT_EQ(rescaled(0x1p-14f), (KindList{Kind::kQuantize, Kind::kQuantize}));
  EXPECT_EQ(rescaled(0x1p-16f), (KindList{Kind::kQuantize, Kind::kDequantize, Kind::kQuantize}));
}

TEST_F(Quantized, AFunctionWithoutAKernelIsATable) {
  const Val y = b.add(b.mul(b.sin(given({2, 3}, 0.5f, 3)), 0.5), 1.0);
  EXPECT_EQ(run({dequantize(quantize_to(y, 0.01f, -100))}, true),
            (KindList{Kind::kQuantize, Kind::kCast, Kind::kGather, Kind::kDequantize}));
  const core::Value& table = graph.at(graph.ops[2].inputs[0]);
  EXPECT_EQ(table.dtype, DType::kInt8);
  EXPECT_EQ(table.quantization->scale, std::vector<float>{0.01f});
  const std::vector<double> entries = *graph.numbers(graph.ops[2].inputs[0]);
  ASSERT_EQ(entries.size(), 256u);
  EXPECT_EQ(entries[128 + 3], 0);   // x = 0: 1 = 100 steps above -100
  EXPECT_EQ(entries[128 + 6], 50);  // x = 1.5: 1 + sin(1.5) / 2 = 1.49875
  EXPECT_EQ(report.tables, 1u);
  EXPECT_TRUE(report.islands.empty());
}

TEST_F(Quantized, AKernelIsPreferredToATable) {
  run({dequantize(quantize_to(b.tanh(given({2, 3}, 0.5f, 3)), 0.01f, 0))}, true);
  EXPECT_EQ(report.tables, 0u);
  EXPECT_EQ(report.operators, 1u);
}

TEST_F(Quantized, ATableIsReadOnceForBothTypesOfItsResult) {
  const Val y = b.sin(given({2, 3}, 0.5f, 3));
  EXPECT_EQ(run({quantize_to(y, 0.01f, 0), quantize_to(y, 0.01f, 128, DType::kUint8)}, true),
            (KindList{Kind::kQuantize, Kind::kCast, Kind::kGather, Kind::kQuantize}));
  EXPECT_EQ(report.tables, 1u);
}

TEST_F(Quantized, FloatsThatAreNeededTooStay) {
  const Val y = b.sin(given({2, 3}, 0.5f, 3));
  run({y, quantize_to(y, 0.01f, 0)}, true);
  EXPECT_EQ(report.tables, 0u);
}

TEST_F(Quantized, TwoArgumentsMakeNoTable) {
  const Val y = b.atan2(given({2, 3}, 0.5f, 3), given({2, 3}, 0.25f, 3));
  run({dequantize(quantize_to(y, 0.01f, 0))}, true);
  EXPECT_EQ(report.tables, 0u);
  EXPECT_EQ(report.islands.size(), 1u);
}

TEST_F(Quantized, AFixedScaleMustBeTheModels) {
  run({dequantize(quantize_to(b.logistic(given({2, 3}, 0.5f, 3)), 0.0031f, -128))});
  ASSERT_EQ(report.islands.size(), 1u);
  EXPECT_EQ(report.islands[0].reason,
            "LOGISTIC gives the scale 0.00390625 and the zero point -128 only; the model has 0.0031 and -128");
}

TEST_F(Quantized, ScalesTooFarApartStayFloat) {
  run({dequantize(quantize_to(b.add(given({2, 3}, 500.0f, 3), given({2, 3}, 1.0f, 0)), 1.0f, 0))});
  ASSERT_EQ(report.islands.size(), 1u);
  EXPECT_EQ(report.islands[0].reason,
            "the scales of its data and its result differ by a factor of 500, which kernels do not take");
}

TEST_F(Quantized, ResultsThatNeedMoreThan16BitsStayFloat) {
  run({dequantize(quantize_to(b.add(given({2, 3}, 100.0f, -128), given({2, 3}, 100.0f, 0)), 1.0f, 0))});
  ASSERT_EQ(report.islands.size(), 1u);
  EXPECT_EQ(report.islands[0].reason, "its results may have -12801 to 38201 steps, and kernels keep 16 bits of them");
}

TEST_F(Quantized, AResultThatIsAlsoReadAsFloatsStaysFloat) {
  const Val y = b.add(given({2, 3}, 0.5f, 3), given({2, 3}, 0.25f, -7));
  run({dequantize(quantize_to(y, 0.6f, 11)), y});
  ASSERT_EQ(report.islands.size(), 1u);
  EXPECT_EQ(report.islands[0].reason, "its result is not quantized, or on several grids");
}

TEST_F(Quantized, InputsAndOutputsOfIntegersGetTheirGrid) {
  const Val x{graph.add_value(DType::kUint8, {2, 3})};
  graph.inputs.push_back(x.id);
  const Val q = b.op(Kind::kBitcast, {x}, core::IndexOptions{DType::kUint8});
  graph.at(q.id).quantization = core::Quantization{{0.5f}, {121}, 0};
  const Val y = quantize_to(b.tanh(dequantize(q)), 0.01f, 100, DType::kUint8);
  const auto kinds = run({b.op(Kind::kBitcast, {y}, core::IndexOptions{DType::kUint8})});
  EXPECT_EQ(kinds, (KindList{Kind::kTanh}));
  EXPECT_TRUE(graph.at(graph.inputs[0]).quantization);
  EXPECT_TRUE(graph.at(graph.outputs[0]).quantization);
}

TEST_F(Quantized, FloatOperatorsAreListedButForTheBorder) {
  const Val y = b.div(given({2, 3}, 0.5f, 3), given({2, 3}, 0.25f, -7));
  run({dequantize(quantize_to(y, 0.6f, 11))});
  const auto refused = float_operators(graph);
  ASSERT_EQ(refused.size(), 4u);  // two DEQUANTIZEs, DIV, QUANTIZE
  EXPECT_EQ(refused[2].where().op, "DIV");
}

// EMBEDDING_LOOKUP gives floats of integers.
TEST_F(Quantized, AHybridKernelLosesNoScale) {
  const Val rows = b.constant(recipe::ints(std::array<int64_t, 2>{3, 5}, DType::kInt8, {2, 1}));
  const Val found{graph.add_value(DType::kFloat32, {2, 1})};
  graph.at(rows.id).quantization = core::Quantization{{0.5f}, {0}, 0};
  graph.add_op({.kind = Kind::kEmbeddingLookup, .inputs = {b.i32({0, 1}).id, rows.id}, .outputs = {found.id}});
  check_grids(graph);
}

// What a pass loses would be computed with a scale of 0.
TEST_F(Quantized, ScalesThatAreLostAreFound) {
  const Val q = quantize_to(floats({2, 3}), 0.5f, 3);
  const Val turned = b.transpose(q, {1, 0}), shift = quantize_to(turned, 0.5f, 131, DType::kUint8);
  for (const Val out : {turned, shift}) {
    graph.outputs = {out.id};
    EXPECT_THROW(check_grids(graph), stream::Error);
  }
  graph.at(turned.id).quantization = core::Quantization{{0.5f}, {4}, 0};
  EXPECT_THROW(check_grids(graph), stream::Error);
  graph.at(turned.id).quantization = core::Quantization{{0.5f}, {3}, 0};
  check_grids(graph);
}

TEST_F(Quantized, AReshapeKeepsTheScale) {
  const Val q = quantize_to(floats({2, 3}), 0.5f, 3), flat = b.reshape(q, {6});
  EXPECT_EQ(graph.at(flat.id).quantization, graph.at(q.id).quantization);
  // One that gives the integers another scale is not skipped.
  graph.at(flat.id).quantization = core::Quantization{{0.25f}, {3}, 0};
  const Val again = b.reshape(flat, {3, 2});
  EXPECT_EQ(graph.at(again.id).quantization, graph.at(flat.id).quantization);
  EXPECT_NE(b.reshape(flat, {2, 3}).id, q.id);
}

}  // namespace
}  // namespace lowtide::layout
