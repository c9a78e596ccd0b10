// SPDX-License-Identifier: Apache-2.0
// On which values grids are placed, and which. What the networks then compute is judged by running them
// (tests/python/test_quantize.py).
#include "layout/quantize/place_grids.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "layout/quantize/quantize.h"
#include "stream/error.h"
#include "tests/layout/built_graph.h"

namespace lowtide::layout {
namespace {

using core::DType;
using core::Kind;
using core::Val;
namespace recipe = stream::recipe;

struct Calibrating : BuiltGraph {
  Val input(core::Shape shape, const std::string& name, Interval interval) {
    const Val x{graph.add_value(DType::kFloat32, std::move(shape), name)};
    graph.inputs.push_back(x.id);
    graph.input_names.push_back(name);
    calibrated.tensors[name].interval = calibrated.tensors[name].seen = interval;
    return x;
  }
  Val named(Val x, const std::string& name, Interval interval) {
    graph.at(x.id).name = name;
    calibrated.tensors[name].interval = calibrated.tensors[name].seen = interval;
    return x;
  }
  Val weights(core::Shape shape, std::vector<float> elements) {
    return b.constant(recipe::floats(elements, std::move(shape)));
  }
  // True or false, by an input.
  Val condition() {
    const Val x{graph.add_value(DType::kBool, {2, 3}, "condition")};
    graph.inputs.push_back(x.id);
    graph.input_names.push_back("condition");
    return x;
  }
  // The kinds of ops after both passes.
  std::vector<Kind> run(std::vector<Val> outputs, bool tables = false) {
    for (Val v : outputs) {
      graph.outputs.push_back(v.id);
      graph.output_names.push_back("out" + std::to_string(graph.outputs.size()));
    }
    const PlacedGrids placed = quantize_calibrated(graph, calibrated, report, tables, nullptr, [] {});
    notes = placed.notes;
    std::vector<Kind> kinds;
    for (const core::Op& op : graph.ops) kinds.push_back(op.kind);
    return kinds;
  }
  const core::Value& result(size_t op) { return graph.at(graph.ops[op].outputs[0]); }
  const core::Quantization& grid(size_t op) { return *result(op).quantization; }
  Calibrated calibrated;
  core::IntegerReport report;
  std::vector<std::string> notes;
};
using KindList = std::vector<Kind>;

TEST_F(Calibrating, AProductHasAScaleForEachChannel) {
  const Val x = input({4, 2}, "x", {-1, 1.55});
  const Val y =
      named(b.fully_connected(x, weights({3, 2}, {1, -2, 0, 0, 1e-9f, 5e-9f}), weights({3}, {0.5f, 0.25f, 3.0f}), true),
            "y", {-2.55, 0});
  EXPECT_EQ(run({y}), (KindList{Kind::kQuantize, Kind::kFullyConnected, Kind::kDequantize}));
  EXPECT_FLOAT_EQ(grid(0).scale[0], 0.01f);
  EXPECT_EQ(grid(0).zero_point[0], -28);
  EXPECT_EQ(grid(1).zero_point[0], 127);
  EXPECT_EQ(result(1).name, "y");
  const core::Quantization& of_weights = *graph.at(graph.ops[1].inputs[1]).quantization;
  EXPECT_FLOAT_EQ(of_weights.scale[0], 2.0f / 127);
  EXPECT_EQ(of_weights.axis, 0);
  // Zeros and tiny weights: the bias fits 32 bits.
  EXPECT_GT(of_weights.scale[1], 0);
  EXPECT_LE(3.0 / (0.01 * of_weights.scale[2]), 0x1p30 * 1.001);
  EXPECT_EQ(graph.at(graph.ops[1].inputs[2]).dtype, DType::kInt32);
  EXPECT_EQ(report.operators, 1u);
}

TEST_F(Calibrating, AConcatenationGetsTheUnionOfItsRanges) {
  const Val a = named(b.tanh(input({2, 3}, "a", {-1, 1})), "ta", {-0.5, 0.25});
  const Val c = named(b.hard_swish(input({2, 5}, "c", {-1, 1})), "tc", {0, 2.05});
  const Val y = b.concat({a, c}, 1);
  EXPECT_EQ(run({y}), (KindList{Kind::kQuantize, Kind::kQuantize, Kind::kTanh, Kind::kHardSwish, Kind::kConcatenation,
                                Kind::kDequantize}));
  for (const size_t op : {size_t{2}, size_t{3}, size_t{4}}) {
    EXPECT_FLOAT_EQ(grid(op).scale[0], 0.01f);
    EXPECT_EQ(grid(op).zero_point[0], -78);
  }
}

TEST_F(Calibrating, AFixedScaleMeetsAnotherThroughAQuantize) {
  const Val a = b.logistic(input({2, 3}, "a", {-1, 1}));
  const Val c = named(b.hard_swish(input({2, 5}, "c", {-1, 1})), "tc", {-2, 2});
  run({b.concat({a, c}, 1)});
  EXPECT_EQ(report.rescales, 1u);
  EXPECT_EQ(report.operators, 3u);
  EXPECT_TRUE(report.islands.empty());
}

TEST_F(Calibrating, OnlyFixedScalesKeepTheirs) {
  const Val a = b.logistic(input({2, 3}, "a", {-1, 1})), c = b.logistic(input({2, 5}, "c", {-3, 1}));
  run({b.concat({a, c}, 1)});
  EXPECT_EQ(report.rescales, 0u);
  EXPECT_FLOAT_EQ(grid(4).scale[0], 1.0f / 256);
}

TEST_F(Calibrating, LimitsThatNothingReachesDoNotWidenAGrid) {
  const Val x = named(b.hard_swish(input({2, 3}, "x", {-1, 1})), "h", {-0.5, 2.05});
  const Val y = named(b.minimum(b.maximum(x, b.scalar_like(-1e6, x)), b.scalar_like(1000, x)), "y", {-0.5, 2.05});
  EXPECT_EQ(run({y}), (KindList{Kind::kQuantize, Kind::kHardSwish, Kind::kMaximum, Kind::kMinimum, Kind::kDequantize}));
  for (const size_t op : {size_t{1}, size_t{2}, size_t{3}}) EXPECT_FLOAT_EQ(grid(op).scale[0], 0.01f);
  // Beyond the grid, and so at its ends.
  EXPECT_EQ(graph.ints(graph.ops[2].inputs[1]), (std::vector<int64_t>{-128}));
  EXPECT_EQ(graph.ints(graph.ops[3].inputs[1]), (std::vector<int64_t>{127}));
}

TEST_F(Calibrating, ALimitThatIsTheResultWidensTheGrid) {
  const Val x = named(b.hard_swish(input({2, 3}, "x", {-1, 1})), "h", {-0.55, 1});
  run({b.maximum(x, b.scalar_like(2.55, x)), x});
  EXPECT_FLOAT_EQ(grid(1).scale[0], 3.1f / 255);
  EXPECT_EQ(grid(1).zero_point[0], -83);
}

TEST_F(Calibrating, AClipNeedsNothingBeyondItsLimits) {
  const Val x = named(b.hard_swish(input({2, 3}, "x", {-1, 1})), "h", {-30, 40});
  run({named(b.minimum(b.maximum(x, b.scalar_like(-0.55, x)), b.scalar_like(2, x)), "y", {-0.55, 2})});
  for (const size_t op : {size_t{1}, size_t{2}, size_t{3}}) EXPECT_FLOAT_EQ(grid(op).scale[0], 0.01f);
  EXPECT_EQ(result(1).name, "h/limited");
  EXPECT_EQ(result(3).name, "y");
}

TEST_F(Calibrating, AConstantOutsideOfAFixedScaleMeetsItThroughAQuantize) {
  const Val a = b.logistic(input({2, 3}, "a", {-1, 1}));
  run({named(b.concat({a, weights({2, 1}, {1.55f, -1})}, 1), "y", {-1, 1.55})});
  EXPECT_EQ(report.rescales, 1u);
  EXPECT_FLOAT_EQ(grid(1).scale[0], 1.0f / 256);
  EXPECT_FLOAT_EQ(grid(3).scale[0], 0.01f);
  EXPECT_TRUE(report.islands.empty());
}

TEST_F(Calibrating, AConstantInsideOfAFixedScaleKeepsIt) {
  const Val a = b.logistic(input({2, 3}, "a", {-1, 1}));
  const Val joined = b.concat({a, weights({2, 1}, {1, 0.5f})}, 1);
  run({b.maximum(joined, b.scalar_like(-3, joined))});
  EXPECT_EQ(report.rescales, 0u);
  EXPECT_FLOAT_EQ(grid(3).scale[0], 1.0f / 256);
}

TEST_F(Calibrating, MasksEndALittleBelowTheScores) {
  const Val scores = named(b.hard_swish(input({2, 3}, "x", {-1, 1})), "h", {-5, 7});
  const Val sum = named(b.add(scores, weights({2, 3}, {0, -1e4f, -1, -1e4f, -1, 0})), "sum", {-1e4, 5});
  calibrated.tensors["sum"].seen.high = 6.5;
  calibrated.tensors["sum"].unmasked.least = -6;
  EXPECT_EQ(run({b.softmax(sum)}),
            (KindList{Kind::kQuantize, Kind::kHardSwish, Kind::kAdd, Kind::kSoftmax, Kind::kDequantize}));
  EXPECT_FLOAT_EQ(grid(1).scale[0], 12.0f / 255);
  EXPECT_FLOAT_EQ(grid(2).scale[0], (5 + 1 + 8 + 6.5f) / 255);
  // No element of the scores brings a mask back above that.
  EXPECT_FLOAT_EQ(graph.at(graph.ops[2].inputs[1]).quantization->scale[0], (5 + 1 + 8 + 7.0f) / 255);
}

TEST_F(Calibrating, ScoresFarBelowZeroAreNoMasks) {
  const Val distance = named(b.hard_swish(input({2, 3}, "x", {-1, 1})), "h", {-130, 0});
  const Val sum = named(b.add(distance, weights({2, 3}, {0, 1, -1, 2, -1, 0})), "sum", {-131, 2});
  run({b.softmax(sum)});
  EXPECT_FLOAT_EQ(grid(2).scale[0], 133.0f / 255);
}

TEST_F(Calibrating, MasksThatAreAnOutputStayInFloats) {
  const Val scores = named(b.hard_swish(input({2, 3}, "x", {-1, 1})), "h", {-5, 7});
  const Val sum = named(b.add(scores, weights({3}, {0, -1e4f, -1})), "sum", {-1e4, 5});
  calibrated.tensors["sum"].unmasked.least = -6;
  EXPECT_EQ(run({b.softmax(sum), sum}),
            (KindList{Kind::kQuantize, Kind::kHardSwish, Kind::kDequantize, Kind::kAdd, Kind::kSoftmax}));
}

TEST_F(Calibrating, OtherReadersOfTheScoresKeepWhatTheyNeed) {
  const Val scores = named(b.hard_swish(input({2, 3}, "x", {-1, 1})), "h", {-5, 7});
  const Val masked =
      named(b.pad(scores, std::vector<int64_t>{0, 1}, std::vector<int64_t>{0, 0}, -1e4), "padded", {-1e4, 7});
  const Val largest = named(b.reduce_max(masked, std::vector<int>{1}, true), "largest", {-2, 7});
  run({b.softmax(masked), largest});
  EXPECT_FLOAT_EQ(grid(1).scale[0], (5 + 8 + 7.0f) / 255);
}

TEST_F(Calibrating, AMaskThatNoSampleChoseIsOne) {
  const Val scores = named(b.hard_swish(input({2, 3}, "x", {-1, 1})), "h", {-5, 7});
  const Val masked = named(b.select(condition(), scores, b.scalar_like(-1e30, scores)), "masked", {-5, 7});
  EXPECT_EQ(run({b.softmax(masked)}),
            (KindList{Kind::kQuantize, Kind::kHardSwish, Kind::kSelectV2, Kind::kSoftmax, Kind::kDequantize}));
  EXPECT_FLOAT_EQ(grid(1).scale[0], (5 + 8 + 7.0f) / 255);
  EXPECT_EQ(result(2).name, "masked/limited");
}

TEST_F(Calibrating, AnotherConstantThatNoSampleChoseDoesNotWidenAGrid) {
  const Val x = named(b.hard_swish(input({2, 3}, "x", {-1, 1})), "h", {-0.55, 2});
  const Val guarded = named(b.select(condition(), x, b.scalar_like(1000, x)), "guarded", {-0.55, 2});
  run({named(b.hard_swish(guarded), "y", {0, 1})});
  EXPECT_FLOAT_EQ(grid(1).scale[0], 0.01f);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("SELECT_V2 'guarded': no sample chose its constant 1000"), std::string::npos) << notes[0];
}

TEST_F(Calibrating, WhatIsAlwaysZeroMayHaveMasks) {
  const Val scores = named(b.hard_swish(input({2, 3}, "x", {-1, 1})), "h", {-5, 7});
  const Val masks = named(b.mul(input({3}, "hidden", {0, 0}), -1e4), "masks", {0, 0});
  const Val sum = named(b.add(scores, masks), "sum", {-5, 7});
  EXPECT_EQ(run({b.softmax(sum)}), (KindList{Kind::kQuantize, Kind::kQuantize, Kind::kHardSwish, Kind::kMul, Kind::kAdd,
                                             Kind::kSoftmax, Kind::kDequantize}));
  EXPECT_FLOAT_EQ(grid(1).scale[0], 128 * 20e-4f / 255);
  EXPECT_EQ(grid(1).zero_point[0], -128);
  for (const size_t op : {size_t{3}, size_t{4}}) EXPECT_FLOAT_EQ(grid(op).scale[0], 20.0f / 255);
  EXPECT_EQ(grid(3).zero_point[0], 127);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find(" and 1 more were 0 in all samples"), std::string::npos) << notes[0];
}

TEST_F(Calibrating, ADeadLayerHasNoMasks) {
  const Val x = input({4, 2}, "x", {-1, 1});
  const Val dead = named(b.fully_connected(x, weights({3, 2}, {1, 2, 3, 4, 5, 6}), {}, true), "dead", {0, 0});
  const Val sum = named(b.add(named(b.hard_swish(input({4, 3}, "z", {-1, 1})), "h", {-3, 3}), dead), "sum", {-3, 2.1});
  run({b.logistic(sum)});
  for (const core::Op& op : graph.ops)
    if (op.kind == Kind::kAdd) {
      EXPECT_FLOAT_EQ(graph.at(op.outputs[0]).quantization->scale[0], 5.1f / 255);
    }
  EXPECT_TRUE(notes.empty());
}

TEST_F(Calibrating, LargeNumbersStayInIntegersWhereFloatsAreRefused) {
  const Val x = named(b.hard_swish(input({2, 3}, "x", {-1, 1})), "h", {-7, 900});
  calibrated.tensors["h"].unmasked.most = 5;
  calibrated.only_integers = true;
  EXPECT_EQ(run({named(b.hard_swish(x), "y", {-1, 900})}),
            (KindList{Kind::kQuantize, Kind::kHardSwish, Kind::kHardSwish, Kind::kDequantize}));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("'h': its result has masks up to 900"), std::string::npos) << notes[0];
}

TEST_F(Calibrating, MasksAboveAllOthersEndALittleAboveThem) {
  const Val scores = named(b.hard_swish(input({2, 3}, "x", {-1, 1})), "h", {-7, 5});
  const Val masked = named(b.select(condition(), scores, b.scalar_like(1e4, scores)), "masked", {-7, 1e4});
  calibrated.tensors["masked"].unmasked.most = 5;
  const Val turned = named(b.mul(masked, -1), "turned", {-1e4, 7});
  calibrated.tensors["turned"].unmasked.least = -5;
  run({b.softmax(turned), b.arg_min(masked, 1, DType::kInt32)});
  for (const core::Op& op : graph.ops) {
    const bool is_one = op.kind == Kind::kSelectV2 || op.kind == Kind::kMul || op.kind == Kind::kHardSwish;
    if (!is_one) continue;
    EXPECT_FLOAT_EQ(graph.at(op.outputs[0]).quantization->scale[0], (7 + 5 + 8.0f) / 255);
  }
}

struct Infinite : Calibrating {
  // Scores plus this number for some of them.
  Val sum_with(double number) {
    const Val scores = named(b.hard_swish(input({2, 3}, "x", {-1, 1})), "h", {-5, 7});
    const Val sum = named(b.add(scores, weights({3}, {0, static_cast<float>(number), -1})), "sum", {-6, 6});
    calibrated.tensors["sum"].is_finite = false;
    return sum;
  }
  // Of scores among which this number stands.
  std::vector<Kind> log_softmax_with(double number) {
    const Val scores = named(b.hard_swish(input({2, 3}, "x", {-1, 1})), "h", {-5, 7});
    const Val masked = named(b.select(condition(), scores, b.scalar_like(number, scores)), "masked", {-5, 7});
    const Val of_all = named(b.log_softmax(masked), "result", {-12, 0});
    for (const char* name : {"masked", "result"}) {
      CalibratedTensor& tensor = calibrated.tensors[name];
      tensor.is_finite = std::isfinite(number);
      tensor.unmasked.least = tensor.seen.low;
      if (tensor.is_finite) tensor.interval.low = tensor.seen.low = number;
    }
    return run({of_all});
  }
  const double infinite = std::numeric_limits<double>::infinity();
};

TEST_F(Infinite, MasksAreSaturatedWhereNothingNeedsThem) {
  EXPECT_EQ(run({b.softmax(sum_with(-infinite))}),
            (KindList{Kind::kQuantize, Kind::kHardSwish, Kind::kAdd, Kind::kSoftmax, Kind::kDequantize}));
  EXPECT_FLOAT_EQ(grid(2).scale[0], (6 + 8 + 6.0f) / 255);
  EXPECT_FLOAT_EQ(graph.at(graph.ops[2].inputs[1]).quantization->scale[0], (6 + 8 + 7.0f) / 255);
  EXPECT_EQ(graph.ints(graph.ops[2].inputs[1])->at(1), -128);
}

TEST_F(Infinite, ReadAsSuchTheyStayInFloats) {
  run({b.exp(sum_with(-infinite))});
  EXPECT_EQ(report.islands.at(0).reason, "its weights have infinite or NaN elements");
}

TEST_F(Infinite, OnesOfTheOtherSignAreNoMasks) {
  run({b.softmax(sum_with(infinite))});
  EXPECT_EQ(report.islands.at(0).reason, "its weights have infinite or NaN elements");
}

TEST_F(Infinite, NaNIsNoMask) {
  run({b.softmax(sum_with(std::nan("")))});
  EXPECT_EQ(report.islands.at(0).reason, "its weights have infinite or NaN elements");
}

TEST_F(Infinite, LogProbabilitiesOfMasksThatAreAnOutput) {
  EXPECT_EQ(log_softmax_with(-1e4),
            (KindList{Kind::kQuantize, Kind::kHardSwish, Kind::kDequantize, Kind::kSelectV2, Kind::kLogSoftmax}));
}

TEST_F(Infinite, LogProbabilitiesOfMasksOfInfinityThatAreAnOutput) {
  EXPECT_EQ(log_softmax_with(-infinite),
            (KindList{Kind::kQuantize, Kind::kHardSwish, Kind::kDequantize, Kind::kSelectV2, Kind::kLogSoftmax}));
}

TEST_F(Calibrating, PartsWithoutStepsStayInFloats) {
  const Val x = input({2, 3}, "x", {-1, 640}), z = input({2, 3}, "z", {-1, 1});
  const Val boxes = named(b.hard_swish(x), "boxes", {0, 640});
  const Val scores = named(b.logistic(z), "scores", {0, 1});
  const Val all = named(b.concat({boxes, scores}, 1), "all", {0, 640});
  EXPECT_EQ(run({all}), (KindList{Kind::kQuantize, Kind::kQuantize, Kind::kHardSwish, Kind::kDequantize,
                                  Kind::kLogistic, Kind::kDequantize, Kind::kConcatenation}));
}

TEST_F(Calibrating, FloatsOfOtherSizesGiveTheirRangeToWhatIsMadeOfThem) {
  const Val x = input({2, 3}, "x", {-0.55, 2});
  graph.at(x.id).dtype = DType::kFloat16;
  const Val moved = b.cast(b.reshape(x, {3, 2}), DType::kFloat32);
  const Val y = b.cast(b.hard_swish(moved), DType::kFloat16);
  named(y, "y", {0, 2.55});
  EXPECT_EQ(run({y}),
            (KindList{Kind::kReshape, Kind::kCast, Kind::kQuantize, Kind::kHardSwish, Kind::kDequantize, Kind::kCast}));
  EXPECT_FLOAT_EQ(grid(2).scale[0], 0.01f);
  EXPECT_FLOAT_EQ(grid(3).scale[0], 0.01f);
}

TEST_F(Calibrating, ATensorWithoutANameGetsARangeOnlyWhereItFollows) {
  const Val x = input({2, 6}, "x", {-1, 1});
  const Val moved = b.reshape(x, {3, 4});
  const Val unknown = b.add(moved, moved);
  EXPECT_EQ(run({b.tanh(moved), b.tanh(unknown)}), (KindList{Kind::kQuantize, Kind::kReshape, Kind::kDequantize,
                                                             Kind::kAdd, Kind::kTanh, Kind::kTanh, Kind::kDequantize}));
  ASSERT_EQ(report.islands.size(), 2u);
  EXPECT_EQ(report.islands[0].reason,
            "its result is a tensor that the conversion made, of which calibration has no range");
  EXPECT_EQ(report.islands[1].reason,
            "its data is a tensor that the conversion made, of which calibration has no range");
}

TEST_F(Calibrating, ValuesBetweenOpsInFloatsStay) {
  const Val x = named(b.hard_swish(input({2, 3}, "x", {-1, 1})), "h", {-1, 1});
  const Val root = named(b.sqrt(x), "root", {0, 1});
  const Val sine = named(b.sin(root), "sine", {0, 1});
  EXPECT_EQ(run({named(b.tanh(sine), "y", {-1, 1})}),
            (KindList{Kind::kQuantize, Kind::kHardSwish, Kind::kDequantize, Kind::kSqrt, Kind::kSin, Kind::kQuantize,
                      Kind::kTanh, Kind::kDequantize}));
  EXPECT_EQ(report.islands.size(), 2u);
}

TEST_F(Calibrating, FunctionsBesideIntegersBecomeTables) {
  const Val x = named(b.hard_swish(input({2, 3}, "x", {-1, 1})), "h", {-1, 1});
  const Val root = named(b.sqrt(x), "root", {0, 1});
  const Val made = b.mul(b.sin(root), 0.5);  // without a name: inside of the function
  const Val sine = named(b.add(made, 0.25), "sine", {0.25, 0.75});
  EXPECT_EQ(run({named(b.tanh(sine), "y", {-1, 1})}, true),
            (KindList{Kind::kQuantize, Kind::kHardSwish, Kind::kQuantize, Kind::kCast, Kind::kGather, Kind::kQuantize,
                      Kind::kCast, Kind::kGather, Kind::kTanh, Kind::kDequantize}));
  EXPECT_EQ(report.tables, 2u);
  EXPECT_TRUE(report.islands.empty());
}

TEST_F(Calibrating, FunctionsBetweenFloatsAndKeptOnesBecomeNone) {
  const Val x = input({2, 3}, "x", {-1, 1});
  run({named(b.sin(x), "y", {-1, 1})}, true);
  EXPECT_EQ(report.tables, 0u);
  const Val z = named(b.hard_swish(input({2, 3}, "z", {-1, 1})), "h", {-1, 1});
  calibrated.keep_float = {"kept"};
  run({named(b.sin(z), "kept", {-1, 1})}, true);
  EXPECT_EQ(report.tables, 0u);
}

TEST_F(Calibrating, WhatIsKeptInFloatsReadsFloatWeights) {
  graph.add_origin("head", 0);
  const Val x = input({4, 2}, "x", {-1, 1});
  b.origin = 1;
  const Val y = named(b.fully_connected(x, weights({3, 2}, {1, 2, 3, 4, 5, 6}), {}, true), "y", {-2, 2});
  calibrated.keep_float = {"he*"};
  EXPECT_EQ(run({y}), (KindList{Kind::kFullyConnected}));
  EXPECT_EQ(graph.numbers(graph.ops[0].inputs[1]), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(report.islands[0].reason, "--keep-float names it");
}

TEST_F(Calibrating, AnUnseenTensorIsNamed) {
  const Val x = input({4, 2}, "x", {-1, 1});
  const Val y = b.tanh(b.hard_swish(x));
  graph.at(graph.ops[0].outputs[0]).name = "h";
  calibrated.unseen.insert("h");
  try {
    run({y});
    FAIL();
  } catch (const stream::Error& error) {
    EXPECT_NE(std::string(error.what()).find("'h' had no finite value in any sample"), std::string::npos);
  }
}

TEST_F(Calibrating, SixteenBitsHaveNoZeroPoint) {
  calibrated.activations = DType::kInt16;
  const Val x = input({4, 2}, "x", {-1, 0.5});
  const Val y =
      named(b.fully_connected(x, weights({3, 2}, {1, 2, 3, 4, 5, 6}), weights({3}, {1, 2, 3}), true), "y", {0, 3});
  EXPECT_EQ(run({y}), (KindList{Kind::kQuantize, Kind::kFullyConnected, Kind::kDequantize}));
  EXPECT_FLOAT_EQ(grid(0).scale[0], 1.0f / 32767);
  EXPECT_EQ(grid(1).zero_point[0], 0);
  EXPECT_EQ(graph.at(graph.ops[1].inputs[2]).dtype, DType::kInt32);
}

}  // namespace
}  // namespace lowtide::layout
