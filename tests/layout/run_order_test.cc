// SPDX-License-Identifier: Apache-2.0
#include "layout/run_order.h"

#include <gtest/gtest.h>

#include "tests/layout/built_graph.h"

namespace lowtide::layout {
namespace {

using core::Kind;
using core::Shape;
using core::Val;

struct RunOrder : BuiltGraph {
  Val column_sums(Val x) { return b.sum(x, std::vector<int>{0}, true); }
  std::vector<Kind> ordered(const std::vector<Val>& outputs) {
    for (const Val each : outputs) graph.outputs.push_back(each.id);
    graph.tidy();
    order_for_memory(graph);
    EXPECT_TRUE(graph.is_tidy());
    std::vector<Kind> kinds;
    for (const core::Op& op : graph.ops) kinds.push_back(op.kind);
    return kinds;
  }
  // Two large values are made of `memory` before the small one that they meet, as passes leave it.
  void expect_in_turns(const Shape& memory_shape) {
    Val state = input({1, 5}), memory = input(memory_shape);
    Val first = b.exp(memory), second = b.abs(memory);
    Val out = b.mul(b.mul(b.tanh(state), column_sums(first)), column_sums(second));
    EXPECT_EQ(ordered({out}),
              (std::vector<Kind>{Kind::kTanh, Kind::kExp, Kind::kSum, Kind::kMul, Kind::kAbs, Kind::kSum, Kind::kMul}));
  }
};

TEST_F(RunOrder, LargeValuesAreComputedWhereTheyAreRead) { expect_in_turns({700, 5}); }

TEST_F(RunOrder, DimensionsThatAreKnownAtRunTimeOnlyCount) { expect_in_turns({symbols.named("N"), 5}); }

TEST_F(RunOrder, WhatKeepsFewerBytesStays) {
  Val x = input({700, 3});
  Val small = column_sums(b.abs(x)), large = b.exp(x);
  // Depth-first `large` would be kept while ABS is computed.
  EXPECT_EQ(ordered({b.mul(large, small)}), (std::vector<Kind>{Kind::kAbs, Kind::kSum, Kind::kExp, Kind::kMul}));
}

TEST_F(RunOrder, SeveralResultsAndOutputsThatAreInputs) {
  Val x = input({6, 50});
  std::vector<Val> parts = b.split(x, 3, 2, 0);
  Val y = b.mul(parts[2], parts[0]);
  EXPECT_EQ(ordered({y, x, y}), (std::vector<Kind>{Kind::kSplit, Kind::kMul}));
}

}  // namespace
}  // namespace lowtide::layout
