// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>

#include "layout/core/builder.h"
#include "layout/fuse/fuse.h"

namespace lowtide::layout {
namespace {

using core::Dim;
using core::DType;
using core::Kind;
using core::Shape;
using core::Val;

class RepeatTest : public testing::Test {
 protected:
  stream::Budget budget{64 << 20};
  core::Symbols symbols;
  core::Graph graph{symbols, budget};
  core::Builder b{graph};

  Val input(Shape shape) {
    core::ValueId id = graph.add_value(DType::kFloat32, std::move(shape));
    graph.inputs.push_back(id);
    return {id};
  }
  std::map<Kind, int> fused(Val out) {
    graph.outputs = {out.id};
    const Shape shape = b.shape(out);
    fuse(graph);
    EXPECT_EQ(graph.at(graph.outputs[0]).shape, shape);
    std::map<Kind, int> kinds;
    for (const core::Op& op : graph.ops) ++kinds[op.kind];
    return kinds;
  }
};

using Kinds = std::map<Kind, int>;

TEST_F(RepeatTest, ABroadcastBeforeAnAdditionIsRemoved) {
  Val x = input({2, 3, 4}), y = input({3, 1});
  const Dim wide[] = {2, 3, 4};
  EXPECT_EQ(fused(b.mul(x, b.broadcast_to(y, wide))), (Kinds{{Kind::kMul, 1}}));
}

TEST_F(RepeatTest, ATileOfOnesIsABroadcast) {
  Val x = input({2, 3}), y = input({1, 3});
  const int64_t twice[] = {2, 1};
  EXPECT_EQ(fused(b.maximum(b.tile(y, twice), x)), (Kinds{{Kind::kMaximum, 1}}));
}

TEST_F(RepeatTest, ATileOfLongerAxesStays) {
  Val x = input({4, 3}), y = input({2, 3});
  const int64_t twice[] = {2, 1};
  EXPECT_EQ(fused(b.maximum(b.tile(y, twice), x)), (Kinds{{Kind::kMaximum, 1}, {Kind::kTile, 1}}));
}

TEST_F(RepeatTest, ABroadcastThatDeterminesTheResultShapeStays) {
  Val x = input({1, 3}), y = input({3});
  const Dim wide[] = {2, 3};
  EXPECT_EQ(fused(b.maximum(x, b.broadcast_to(y, wide))), (Kinds{{Kind::kBroadcastTo, 1}, {Kind::kMaximum, 1}}));
}

TEST_F(RepeatTest, OfTwoBroadcastsOneStays) {
  Val x = input({1, 3}), y = input({3});
  const Dim wide[] = {2, 3};
  EXPECT_EQ(fused(b.maximum(b.broadcast_to(x, wide), b.broadcast_to(y, wide))),
            (Kinds{{Kind::kBroadcastTo, 1}, {Kind::kMaximum, 1}}));
}

TEST_F(RepeatTest, ConcatenationsInARowJoin) {
  Val x = input({2, 3}), y = input({2, 5}), z = input({2, 1});
  EXPECT_EQ(fused(b.concat({x, b.concat({y, z}, 1), x}, 1)), (Kinds{{Kind::kConcatenation, 1}}));
}

TEST_F(RepeatTest, ConcatenationsAlongOtherAxesStay) {
  Val x = input({2, 3}), y = input({1, 3});
  EXPECT_EQ(fused(b.concat({b.concat({x, y}, 0), b.concat({x, y}, 0)}, 1)).at(Kind::kConcatenation), 3);
}

}  // namespace
}  // namespace lowtide::layout
