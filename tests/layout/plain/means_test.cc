// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "layout/plain/plain.h"
#include "tests/layout/built_graph.h"

namespace lowtide::layout {
namespace {

using core::Kind;
using core::Shape;
using core::Val;

struct PlainMeans : BuiltGraph {
  // The shapes that the MEANs which are left read.
  std::vector<Shape> read_by_means(Val result) {
    graph.outputs = {result.id};
    plain_forms(graph);
    graph.tidy();
    std::vector<Shape> out;
    for (const core::Op& op : graph.ops)
      if (op.kind == Kind::kMean) out.push_back(graph.at(op.inputs[0]).shape);
    return out;
  }
  // The mean of each group of three channels, by the means of `axes`.
  Val of_groups(const Shape& shape, std::span<const int> axes, bool keep_dims = true) {
    const int last[] = {2};
    const Val each = b.mean(input(shape), axes, keep_dims);
    return b.mean(b.reshape(each, {2, 5, 3}), last, keep_dims);
  }
};

const int kSpatial[] = {2, 3}, kNegative[] = {-1, 2}, kChannelsLast[] = {1, 2};

TEST_F(PlainMeans, RowsOfGroupsHaveOne) {
  EXPECT_EQ(read_by_means(of_groups({2, 15, 4, 7}, kSpatial)), (std::vector<Shape>{{2, 5, 84}}));
  EXPECT_EQ(graph.at(graph.outputs[0]).shape, (Shape{2, 5, 1}));
}

TEST_F(PlainMeans, AxesFromTheEndAndDroppedOnes) {
  EXPECT_EQ(read_by_means(of_groups({2, 15, 4, 7}, kNegative, false)), (std::vector<Shape>{{2, 5, 84}}));
  EXPECT_EQ(graph.at(graph.outputs[0]).shape, (Shape{2, 5}));
}

TEST_F(PlainMeans, ChannelsBehindThePixelsStay) {
  EXPECT_EQ(read_by_means(of_groups({2, 4, 7, 15}, kChannelsLast)).size(), 2U);
}

TEST_F(PlainMeans, LargeImagesStay) { EXPECT_EQ(read_by_means(of_groups({2, 15, 8, 9}, kSpatial)).size(), 2U); }

TEST_F(PlainMeans, MeansThatOthersReadStay) {
  const int last[] = {2};
  const Val each = b.mean(input({2, 15, 4, 7}), kSpatial, true);
  const Val groups = b.reshape(b.mean(b.reshape(each, {2, 5, 3}), last, true), {2, 5, 1, 1});
  EXPECT_EQ(read_by_means(b.concat({groups, each}, 1)).size(), 2U);
}

TEST_F(PlainMeans, OtherAxesOfTheGroupsStay) {
  const int middle[] = {1};
  const Val each = b.mean(input({2, 15, 4, 7}), kSpatial, true);
  EXPECT_EQ(read_by_means(b.mean(b.reshape(each, {2, 5, 3}), middle, true)).size(), 2U);
}

}  // namespace
}  // namespace lowtide::layout
