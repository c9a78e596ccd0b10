// SPDX-License-Identifier: Apache-2.0
#include "layout/quantize/made_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "layout/fuse/fuse.h"
#include "tests/layout/built_graph.h"

namespace lowtide::layout {
namespace {

using core::Kind;
using core::Val;

struct MadeRanges : BuiltGraph {
  Val input(const std::string& name, Interval interval) {
    const Val x{graph.add_value(DType::kFloat32, {2, 3})};
    graph.inputs.push_back(x.id);
    graph.input_names.push_back(name);
    observe(name, interval);
    return x;
  }
  void observe(const std::string& name, Interval interval) {
    calibrated.tensors[name].interval = calibrated.tensors[name].seen = interval;
  }
  Val named(Val v, const std::string& name, Interval interval) {
    graph.at(v.id).name = name;
    observe(name, interval);
    return v;
  }
  void keep(Val output) {
    graph.outputs.push_back(output.id);
    graph.output_names.push_back("out");
    graph.tidy();
    keep_ranges(graph, calibrated);
  }
  Val number(double value) { return b.scalar(value, DType::kFloat32); }
  // nullopt: it has no name, and so no range.
  std::optional<Interval> range(Val v) {
    const auto known = calibrated.tensors.find(graph.at(v.id).name);
    return known == calibrated.tensors.end() ? std::nullopt : std::optional(known->second.interval);
  }
  Calibrated calibrated;
};

TEST_F(MadeRanges, PartsOfANodeThatAreMultiplesOfItsInput) {
  const Val scaled = b.mul(input("x", {-4, 8}), number(-0.25));
  const Val shifted = b.add(scaled, number(0.5));
  keep(named(b.relu(shifted), "y", {0, 1.5}));
  EXPECT_EQ(range(scaled), (Interval{-2, 1}));
  EXPECT_EQ(range(shifted), (Interval{-1.5, 1.5}));
  forget_made_names(graph);
  EXPECT_EQ(graph.at(shifted.id).name, "");
  EXPECT_EQ(graph.at(graph.outputs[0]).name, "y");
}

// It is known how wide a sum is, so its parts are not as wide as their own intervals would allow.
TEST_F(MadeRanges, SumsOfSeveral) {
  const Val first = b.add(input("x", {-4, 4}), input("y", {-4, 4}));
  keep(named(b.add(first, input("z", {-1, 2})), "sum", {-5, 4}));
  EXPECT_EQ(range(first), (Interval{-7, 5}));
}

TEST_F(MadeRanges, TooWideForTheSum) {
  const Val first = b.add(input("x", {-40, 40}), input("y", {-40, 40}));
  keep(named(b.add(first, input("z", {-80, 80})), "sum", {-5, 4}));
  EXPECT_EQ(range(first), std::nullopt);
}

TEST_F(MadeRanges, AMeanSaysHowWideItsSumIs) {
  const Val total = b.add(input("x", {-4, 4}), input("y", {-4, 4}));
  keep(named(b.mul(total, number(0.5)), "mean", {-1, 3}));
  EXPECT_EQ(range(total), (Interval{-2, 6}));
}

// The function between them is computed in floats whatever is known.
TEST_F(MadeRanges, NotBesideOperatorsInFloats) {
  const Val half = b.mul(input("x", {-4, 4}), number(0.5));
  const Val error = b.op(Kind::kErf, {Val{graph.inputs[0]}});
  keep(named(b.mul(half, error), "y", {0, 2}));
  EXPECT_EQ(range(half), std::nullopt);
}

TEST_F(MadeRanges, MasksSayNothing) {
  const Val x = input("x", {-1e4, 8});
  calibrated.tensors["x"].unmasked.least = -5;
  const Val scaled = b.mul(x, number(0.25));
  keep(named(b.relu(scaled), "y", {0, 2}));
  EXPECT_EQ(range(scaled), std::nullopt);
}

TEST_F(MadeRanges, FactorsThatMoveIntoWeights) {
  const Val x = input("x", {-1, 1});
  const Val weights = b.filled(0.5, DType::kFloat32, {4, 3});
  const Val layer = named(b.op(Kind::kFullyConnected, {x, weights}, core::FullyConnectedOptions{}), "layer", {-2, 6});
  calibrated.tensors["layer"].channel_means = {1, 2, 3, 4};
  calibrated.tensors["layer"].mean_square = 16;
  calibrated.tensors["layer"].unmasked.most = 4;
  calibrated.tensors["layer"].unmasked.is_empty = true;
  const Val negated = named(b.op(Kind::kNeg, {layer}), "negated", {-6, 2});
  keep(named(b.mul(negated, number(-0.5)), "y", {-1, 3}));
  fuse(graph);
  graph.tidy();
  ASSERT_EQ(graph.ops.size(), 2U);
  EXPECT_EQ(graph.at(graph.ops[1].outputs[0]).name, "y");
  EXPECT_NE(graph.at(graph.ops[0].outputs[0]).name, "layer");
  add_ranges_of_multiples(graph, calibrated);
  EXPECT_EQ(range(Val{graph.ops[0].outputs[0]}), (Interval{-3, 1}));
  EXPECT_THAT(calibrated.tensors[graph.at(graph.ops[0].outputs[0]).name].channel_means,
              testing::ElementsAre(-0.5, -1, -1.5, -2));
  const CalibratedTensor& multiple = calibrated.tensors[graph.at(graph.ops[0].outputs[0]).name];
  EXPECT_EQ(multiple.mean_square, 4);
  // Numbers but for masks: the ends are exchanged.
  EXPECT_EQ(multiple.unmasked.least, -2);
  EXPECT_EQ(multiple.unmasked.most, std::nullopt);
  EXPECT_TRUE(multiple.unmasked.is_empty_above);
  EXPECT_FALSE(multiple.unmasked.is_empty);
  forget_made_names(graph);
  EXPECT_EQ(graph.at(graph.ops[0].outputs[0]).name, "");
}

TEST_F(MadeRanges, NamesThatAreTaken) {
  input("x*0", {0, 1});
  graph.kept_ranges.emplace();
  graph.kept_ranges->onnx_names =
      std::make_shared<std::unordered_set<std::string>>(std::unordered_set<std::string>{"x", "x*0"});
  const std::string twice = graph.kept_ranges->times("x", 2);
  EXPECT_EQ(twice, "x*1");
  EXPECT_EQ(graph.kept_ranges->times(twice, 3), twice);
  EXPECT_EQ(graph.kept_ranges->multiples.at(twice).factor, 6);
}

}  // namespace
}  // namespace lowtide::layout
