// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "layout/plain/plain.h"
#include "tests/layout/built_graph.h"

namespace lowtide::layout {
namespace {

using core::DType;
using core::Kind;
using core::Shape;
using core::Val;
using Amounts = std::vector<int64_t>;

struct PlainPads : BuiltGraph {
  Val padded(const Shape& shape, Amounts before = {0, 1, 1, 0}, DType dtype = DType::kFloat32) {
    const Amounts none(before.size(), 0);
    return b.pad(input(shape, dtype), before, none, 0);
  }
  Val conv(Val x) {
    Val weights{graph.add_value(DType::kFloat32, {5, 3, 3, graph.at(x.id).shape[3]}, "w")};
    graph.inputs.push_back(weights.id);
    return b.conv_2d(x, weights, {}, {.padding = core::Padding::kValid});
  }
  // How many PAD and PADV2 are left of what makes these outputs.
  std::pair<int, int> pads(const std::vector<Val>& outputs) {
    graph.outputs.clear();
    for (const Val each : outputs) graph.outputs.push_back(each.id);
    plain_pads(graph);
    graph.tidy();
    std::pair<int, int> out;
    for (const core::Op& op : graph.ops) {
      out.first += op.kind == Kind::kPad;
      out.second += op.kind == Kind::kPadv2;
    }
    return out;
  }
  static constexpr std::pair<int, int> kOneStays{1, 0}, kOneIsRewritten{0, 1};
};

TEST_F(PlainPads, ManyShortRunsAreRewritten) {
  EXPECT_EQ(pads({b.relu(padded({1, 32, 48, 8}))}), kOneIsRewritten);
  EXPECT_EQ(pads({b.relu(padded({1, 32, 48, 64}))}), kOneIsRewritten);
  EXPECT_EQ(pads({padded({1, 5, 500, 7}, {0, 0, 0, 1})}), kOneIsRewritten);  // a run is 8
  EXPECT_EQ(pads({padded({2, 300, 3}, {0, 1, 0})}), kOneIsRewritten);        // 3
  EXPECT_EQ(pads({padded({1, 4, 9, 8, 2}, {0, 1, 1, 1, 0})}), kOneIsRewritten);
}

TEST_F(PlainPads, LongOrFewRunsStay) {
  EXPECT_EQ(pads({b.relu(padded({1, 32, 48, 65}))}), kOneStays);
  EXPECT_EQ(pads({b.relu(padded({1, 32, 48, 8}, {0, 1, 0, 0}))}), kOneStays);  // a run is 384
  EXPECT_EQ(pads({b.relu(padded({1, 14, 15, 8}))}), kOneStays);                // 240 runs
  EXPECT_EQ(pads({b.relu(padded({1, 14, 500}, {0, 0, 1}))}), kOneStays);
}

TEST_F(PlainPads, DimensionsThatAreKnownAtRunTimeOnlyAreImages) {
  const core::Dim h = symbols.named("H"), w = symbols.named("W");
  EXPECT_EQ(pads({padded({1, h, w, 8})}), kOneIsRewritten);
  EXPECT_EQ(pads({padded({h, 2, 2, 8})}), kOneStays);
  EXPECT_EQ(pads({padded({1, 32, 48, w})}), kOneStays);
}

TEST_F(PlainPads, BeforeAConvolutionAloneOneStays) {
  Val before = padded({1, 32, 48, 8});
  EXPECT_EQ(pads({conv(before)}), kOneStays);
  Val shared = padded({1, 32, 48, 8});
  EXPECT_EQ(pads({conv(shared), b.relu(shared)}), kOneIsRewritten);
  Val shown = padded({1, 32, 48, 8});
  EXPECT_EQ(pads({conv(shown), shown}), kOneIsRewritten);
}

TEST_F(PlainPads, OtherTypesStay) {
  EXPECT_EQ(pads({padded({1, 32, 48, 8}, {0, 1, 1, 0}, DType::kInt32)}), kOneStays);
  EXPECT_EQ(pads({padded({1, 32, 48, 8}, {0, 1, 1, 0}, DType::kInt8)}), kOneStays);
}

}  // namespace
}  // namespace lowtide::layout
