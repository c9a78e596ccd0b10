// SPDX-License-Identifier: Apache-2.0
#include "layout/settle/settle_layouts.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <utility>

#include "layout/core/builder.h"
#include "layout/core/orders.h"
#include "layout/fuse/fuse.h"

namespace lowtide::layout {
namespace {

using core::Builder;
using core::DType;
using core::Kind;
using core::Perm;
using core::Val;

const Perm kToNhwc{0, 2, 3, 1}, kToNchw{0, 3, 1, 2};

struct SettleLayouts : testing::Test {
  stream::Budget budget{16 << 20};
  core::Symbols symbols;
  core::Graph graph{symbols, budget};
  Builder b{graph};

  Val input(core::Shape shape) {
    graph.inputs.push_back(
        graph.add_value(DType::kFloat32, std::move(shape), "in" + std::to_string(graph.inputs.size())));
    graph.input_names.push_back(graph.at(graph.inputs.back()).name);
    return {graph.inputs.back()};
  }
  void output(Val v) {
    graph.outputs.push_back(v.id);
    graph.output_names.push_back("out" + std::to_string(graph.outputs.size()));
  }
  // A convolution as the lowering writes it: ONNX's order outside.
  Val conv(Val x, int channels) {
    Val weights = b.filled(1, DType::kFloat32, {channels, 1, 1, b.dim(x, 1)});
    return b.transpose(b.conv_2d(b.transpose(x, kToNhwc), weights, {}, {}), kToNchw);
  }
  int count(Kind kind) const {
    int n = 0;
    for (const core::Op& op : graph.ops) n += op.kind == kind;
    return n;
  }
};

TEST_F(SettleLayouts, ChainedConvolutionsHaveTransposesOnlyAtInputsAndOutputs) {
  Val x = conv(input({2, 3, 5, 7}), 11);
  x = b.relu(x);
  x = conv(b.add(x, b.filled(2, DType::kFloat32, {11, 1, 1})), 13);
  output(x);
  settle_layouts(graph);
  EXPECT_EQ(count(Kind::kTranspose), 2);
  EXPECT_EQ(graph.at(graph.outputs[0]).shape, (core::Shape{2, 13, 5, 7}));
}

TEST_F(SettleLayouts, ConcatRemapsItsAxis) {
  Val x = input({2, 3, 5, 7});
  Val y = b.concat({conv(x, 11), conv(x, 13)}, 1);
  output(conv(y, 17));
  settle_layouts(graph);
  EXPECT_EQ(count(Kind::kTranspose), 2);
  for (const core::Op& op : graph.ops)
    if (op.kind == Kind::kConcatenation) {
      EXPECT_EQ(std::get<core::ConcatOptions>(op.options).axis, 3);
    }
}

TEST_F(SettleLayouts, ConstantsOfLowerRankAreExtended) {
  Val x = conv(input({2, 3, 5, 7}), 11);
  x = b.mul(x, b.filled(3, DType::kFloat32, {5, 7}));
  output(conv(x, 13));
  settle_layouts(graph);
  EXPECT_EQ(count(Kind::kTranspose), 2);
  for (const core::Op& op : graph.ops)
    if (op.kind == Kind::kMul) {
      EXPECT_EQ(graph.at(op.inputs[1]).shape, (core::Shape{1, 5, 7, 1}));
    }
}

TEST_F(SettleLayouts, ReduceRemapsItsAxes) {
  Val x = conv(input({2, 3, 5, 7}), 11);
  Val mean = b.mean(x, std::vector<int>{2, 3}, true);
  output(conv(b.mul(x, b.logistic(conv(mean, 11))), 13));
  settle_layouts(graph);
  EXPECT_EQ(count(Kind::kTranspose), 2);
  for (const core::Op& op : graph.ops)
    if (op.kind == Kind::kMean) {
      EXPECT_EQ(*graph.ints(op.inputs[1]), (std::vector<int64_t>{1, 2}));
    }
}

TEST_F(SettleLayouts, ReductionsOverTheImageNeedNoTranspose) {
  // The remaining axes have the same order however the image is stored.
  output(b.mean(conv(input({2, 3, 5, 7}), 11), std::vector<int>{2, 3}, false));
  output(b.arg_max(conv(input({2, 3, 5, 7}), 13), 1, DType::kInt32));
  settle_layouts(graph);
  EXPECT_EQ(count(Kind::kTranspose), 2);
}

TEST_F(SettleLayouts, APointwiseConvolutionMovesAcrossTransposesThatKeepChannelsLast) {
  const Perm turn{0, 2, 1, 3};
  auto turned = [&](Val x, int height, int stride) {
    Val weights = b.filled(1, DType::kFloat32, {11, height, 1, 3});
    const core::Conv2dOptions options{.stride_h = stride, .stride_w = stride};
    return b.transpose(b.conv_2d(b.transpose(x, turn), weights, {}, options), turn);
  };
  Val x = b.tanh(input({2, 5, 7, 3}));
  output(turned(x, 1, 1));
  settle_layouts(graph);
  EXPECT_EQ(count(Kind::kTranspose), 0);
  output(turned(x, 2, 1));
  settle_layouts(graph);
  EXPECT_EQ(count(Kind::kTranspose), 2);
  output(turned(x, 1, 2));
  settle_layouts(graph);
  EXPECT_EQ(count(Kind::kTranspose), 4);
}

TEST_F(SettleLayouts, FlattenBeforeAFullyConnectedLayerPermutesTheWeights) {
  Val x = b.relu(conv(input({2, 3, 5, 7}), 11));
  Val flat = b.reshape(x, {2, 11 * 5 * 7});
  Val weights = b.filled(1, DType::kFloat32, {4, 11 * 5 * 7});
  output(b.fully_connected(flat, weights, {}, false));
  fuse(graph);
  settle_layouts(graph);
  EXPECT_EQ(count(Kind::kTranspose), 1);  // at the input
}

TEST_F(SettleLayouts, SplitMovesAllItsOutputs) {
  Val x = conv(input({2, 3, 5, 7}), 12);
  const std::vector<int64_t> sizes{2, 4, 6};
  std::vector<Val> parts = b.split(x, sizes, 1);
  output(conv(b.concat({parts[2], b.tanh(parts[0]), parts[1]}, 1), 13));
  settle_layouts(graph);
  EXPECT_EQ(count(Kind::kTranspose), 2);
  for (const core::Op& op : graph.ops)
    if (op.kind == Kind::kSplitV) {
      EXPECT_EQ(*graph.ints(op.inputs[2]), (std::vector<int64_t>{3}));
      EXPECT_EQ(graph.at(op.outputs[1]).shape, (core::Shape{2, 5, 7, 4}));
    }
}

TEST_F(SettleLayouts, TopKKeepsItsAxisLast) {
  Val x = conv(input({2, 3, 5, 7}), 11);
  std::vector<Val> best = b.top_k(x, b.i32_scalar(2));
  output(conv(best[0], 13));
  output(best[1]);
  settle_layouts(graph);
  for (const core::Op& op : graph.ops)
    if (op.kind == Kind::kTopkV2) {
      EXPECT_EQ(graph.at(op.outputs[0]).shape.back(), 2);
      EXPECT_EQ(graph.at(op.outputs[1]).shape.back(), 2);
    }
  EXPECT_EQ(graph.at(graph.outputs[1]).shape, (core::Shape{2, 11, 5, 2}));
}

TEST_F(SettleLayouts, AValueOfLowerRankIsReshaped) {
  Val x = conv(input({2, 3, 5, 7}), 11);
  Val rows = input({5, 7});
  output(conv(b.mul(x, rows), 13));
  settle_layouts(graph);
  EXPECT_EQ(count(Kind::kTranspose), 2);  // [5, 7] as [1, 5, 7, 1] moves no bytes
  EXPECT_EQ(graph.at(graph.outputs[0]).shape, (core::Shape{2, 13, 5, 7}));
}

TEST_F(SettleLayouts, AnOutputUsedInSeveralLayouts) {
  Val x = b.relu(conv(input({2, 3, 5, 7}), 11));
  output(x);
  output(b.transpose(x, kToNhwc));
  output(b.transpose(x, {3, 2, 1, 0}));
  settle_layouts(graph);
  EXPECT_EQ(count(Kind::kTranspose), 3);
  EXPECT_EQ(graph.at(graph.outputs[0]).shape, (core::Shape{2, 11, 5, 7}));
  EXPECT_EQ(graph.at(graph.outputs[1]).shape, (core::Shape{2, 5, 7, 11}));
  EXPECT_EQ(graph.at(graph.outputs[2]).shape, (core::Shape{7, 5, 11, 2}));
}

TEST_F(SettleLayouts, PerAxisScalesMoveWithTheirAxis) {
  Val q = b.op(Kind::kQuantize, {conv(input({2, 3, 5, 7}), 11)}, core::IndexOptions{DType::kInt8});
  graph.at(q.id).quantization = core::Quantization{std::vector<float>(11, 0.5F), std::vector<int64_t>(11, 0), 1};
  output(conv(b.op(Kind::kDequantize, {q}, core::IndexOptions{DType::kFloat32}), 13));
  settle_layouts(graph);
  EXPECT_EQ(count(Kind::kTranspose), 2);
  for (const core::Op& op : graph.ops)
    if (op.kind == Kind::kQuantize) {
      EXPECT_EQ(graph.at(op.outputs[0]).quantization->axis, 3);
    }
}

// ---- the cut is optimal: random graphs against all labellings ----

enum class RandomKind { kConv, kFixed, kUnary, kAdd };
struct RandomOp {
  RandomKind kind;
  std::vector<int> from;  // earlier values
};

// Least bytes over all choices of an order (0: ONNX's, 1: NHWC) for each op that can choose.
uint64_t brute_force(const std::vector<RandomOp>& ops, const std::vector<int>& outputs, uint64_t price) {
  std::vector<int> free;
  for (size_t i = 0; i < ops.size(); ++i)
    if (ops[i].kind == RandomKind::kUnary || ops[i].kind == RandomKind::kAdd) free.push_back(static_cast<int>(i));
  uint64_t best = UINT64_MAX;
  for (uint64_t labels = 0; labels < (uint64_t{1} << free.size()); ++labels) {
    std::vector<int> order(ops.size() + 1, 0);  // of value i + 1; value 0 is the input, in ONNX's order
    for (size_t i = 0; i < ops.size(); ++i) order[i + 1] = ops[i].kind == RandomKind::kConv;
    for (size_t i = 0; i < free.size(); ++i) order[static_cast<size_t>(free[i]) + 1] = labels >> i & 1;
    std::set<int> copied;  // values that are needed in the other order as well
    for (size_t i = 0; i < ops.size(); ++i)
      for (int from : ops[i].from)
        if (order[static_cast<size_t>(from)] != order[i + 1]) copied.insert(from);
    for (int out : outputs)
      if (order[static_cast<size_t>(out)] != 0) copied.insert(out);
    best = std::min(best, copied.size() * price);
  }
  return best;
}

// The bytes that the graph's TRANSPOSE ops move at run time: equal ones once.
uint64_t transposed_cost(core::Graph& graph) {
  std::set<std::pair<core::ValueId, Perm>> copies;
  for (const core::Op& op : graph.ops) {
    if (op.kind != Kind::kTranspose) continue;
    if (auto perm = graph.ints(op.inputs[1])) copies.insert({op.inputs[0], Perm(perm->begin(), perm->end())});
  }
  uint64_t total = 0;
  for (const auto& [value, perm] : copies) total += transpose_cost(graph, value, perm);
  return total;
}

TEST(SettleLayoutsOptimal, RandomGraphsReachTheMinimum) {
  std::mt19937 random(17);
  for (int round = 0; round < 400; ++round) {
    stream::Budget budget{16 << 20};
    core::Symbols symbols;
    core::Graph graph{symbols, budget};
    Builder b{graph};
    graph.inputs.push_back(graph.add_value(DType::kFloat32, {2, 3, 5, 7}, "x"));
    graph.input_names = {"x"};
    std::vector<Val> values{{graph.inputs[0]}};
    std::vector<RandomOp> ops;
    std::vector<bool> used{true};
    const int count = 3 + static_cast<int>(random() % 8);
    for (int i = 0; i < count; ++i) {
      auto pick = [&] { return static_cast<int>(random() % values.size()); };
      RandomOp op{static_cast<RandomKind>(random() % 4), {pick()}};
      if (op.kind == RandomKind::kAdd) op.from.push_back(pick());
      Val x = values[static_cast<size_t>(op.from[0])];
      used[static_cast<size_t>(op.from[0])] = true;
      Val made;
      switch (op.kind) {
        case RandomKind::kConv:
          made = b.transpose(b.conv_2d(b.transpose(x, kToNhwc), b.filled(1, DType::kFloat32, {3, 1, 1, 3}), {}, {}),
                             kToNchw);
          break;
        case RandomKind::kFixed:  // an image op in ONNX's order: no permutation passes it
          made = b.resize_nearest_neighbor(x, b.i32({3, 5}), {});
          break;
        case RandomKind::kUnary:
          made = b.tanh(x);
          break;
        case RandomKind::kAdd:
          used[static_cast<size_t>(op.from[1])] = true;
          made = b.add(x, values[static_cast<size_t>(op.from[1])]);
          break;
      }
      ops.push_back(op);
      values.push_back(made);
      used.push_back(false);
    }
    std::vector<int> outputs;
    for (size_t v = 0; v < values.size(); ++v)
      if (!used[v] || (v > 0 && random() % 8 == 0)) {
        outputs.push_back(static_cast<int>(v));
        graph.outputs.push_back(values[v].id);
        graph.output_names.push_back("o" + std::to_string(v));
      }
    // What one transpose of such a value costs.
    core::Graph alone{symbols, budget};
    alone.inputs.push_back(alone.add_value(DType::kFloat32, {2, 3, 5, 7}));
    Builder{alone}.transpose({alone.inputs[0]}, kToNhwc);
    const uint64_t price = transposed_cost(alone);
    ASSERT_GT(price, 0u);

    settle_layouts(graph);
    EXPECT_EQ(transposed_cost(graph), brute_force(ops, outputs, price)) << "round " << round;
  }
}

}  // namespace
}  // namespace lowtide::layout
