// SPDX-License-Identifier: Apache-2.0
#include "layout/core/reshape_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace lowtide::core {
namespace {

using stream::Perm;

std::optional<Perm> across(const Shape& in, const Shape& out, const Perm& perm) {
  Symbols symbols;
  return perm_across_reshape(symbols, in, out, perm);
}

// The elements of a tensor numbered in memory order, permuted.
std::vector<int64_t> transposed(const Shape& shape, const Perm& perm) {
  Shape moved = stream::permuted(shape, perm);
  std::vector<int64_t> strides(shape.size(), 1), out;
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  const auto count = std::accumulate(moved.begin(), moved.end(), int64_t{1}, std::multiplies<>());
  for (int64_t flat = 0; flat < count; ++flat) {
    int64_t rest = flat, from = 0;
    for (size_t i = moved.size(); i-- > 0; rest /= moved[i])
      from += rest % moved[i] * strides[static_cast<size_t>(perm[i])];
    out.push_back(from);
  }
  return out;
}

TEST(ReshapeGroups, MergedAxesStayTogether) {
  EXPECT_EQ(across({2, 3, 4, 5}, {2, 3, 20}, {0, 2, 3, 1}), (Perm{0, 2, 1}));
  EXPECT_EQ(across({2, 3, 20}, {2, 3, 4, 5}, {0, 2, 1}), (Perm{0, 2, 3, 1}));
  EXPECT_EQ(across({2, 12, 5}, {2, 3, 4, 5}, {0, 2, 1}), (Perm{0, 3, 1, 2}));
}

TEST(ReshapeGroups, AxesThatAPermutationSeparatesFail) {
  EXPECT_EQ(across({2, 3, 4, 5}, {2, 60}, {0, 2, 3, 1}), std::nullopt);     // flatten after NCHW -> NHWC
  EXPECT_EQ(across({2, 3, 4, 5}, {2, 3, 20}, {0, 3, 2, 1}), std::nullopt);  // W before H
  EXPECT_EQ(across({6, 4}, {8, 3}, {1, 0}), std::nullopt);
}

TEST(ReshapeGroups, DimensionsOfOneMayBeAnywhere) {
  EXPECT_EQ(across({1, 3, 4, 5}, {1, 3, 20}, {0, 2, 3, 1}), (Perm{0, 2, 1}));
  EXPECT_EQ(across({7, 3, 1, 1}, {7, 3}, {0, 2, 3, 1}), (Perm{0, 1}));
  EXPECT_EQ(across({7, 3}, {7, 3, 1, 1}, {0, 1}), (Perm{0, 1, 2, 3}));
  EXPECT_EQ(across({2, 6, 1, 4}, {2, 24}, {0, 2, 1, 3}), (Perm{0, 1}));  // the 1 stands between merged axes
}

TEST(ReshapeGroups, EmptyTensorsFail) { EXPECT_EQ(across({0, 3, 4}, {0, 12}, {0, 1, 2}), std::nullopt); }

TEST(ReshapeGroups, EqualSymbolsMatch) {
  Symbols symbols;
  const Dim n = symbols.named("n"), h = symbols.named("h"), w = symbols.named("w");
  EXPECT_EQ(perm_across_reshape(symbols, Shape{n, 3, h, w}, Shape{n, 3, symbols.mul(h, w)}, {0, 2, 3, 1}),
            (Perm{0, 2, 1}));
  EXPECT_EQ(perm_across_reshape(symbols, Shape{n, 3, h, w}, Shape{n, 3, symbols.fresh("x")}, {0, 2, 3, 1}),
            (Perm{0, 2, 1}));
  EXPECT_EQ(perm_across_reshape(symbols, Shape{n, 3, h, w}, Shape{symbols.fresh("y"), h, w}, {2, 3, 0, 1}),
            std::nullopt);  // an unknown extent is matched with nothing
}

// Every permutation that is said to pass does pass: the bytes agree.
TEST(ReshapeGroups, AcceptedPermutationsMoveTheSameBytes) {
  const std::vector<std::pair<Shape, Shape>> cases = {
      {{2, 3, 4}, {6, 4}},    {{2, 3, 4}, {2, 12}},      {{6, 4}, {2, 3, 4}},       {{1, 6, 1, 4}, {6, 1, 4, 1}},
      {{2, 1, 3}, {2, 3}},    {{4, 3, 2}, {2, 2, 3, 2}}, {{4, 6}, {2, 12}},         {{1, 2, 3, 1}, {1, 6}},
      {{2, 2, 2}, {2, 2, 2}}, {{3, 1, 1, 5}, {1, 3, 5}}, {{2, 3, 5, 4}, {2, 3, 20}}};
  int passed = 0;
  for (const auto& [in, out] : cases) {
    Perm perm = stream::identity_perm(static_cast<int>(in.size()));
    do {
      auto other = across(in, out, perm);
      if (!other) continue;
      ++passed;
      ASSERT_EQ(other->size(), out.size());
      EXPECT_EQ(transposed(in, perm), transposed(out, *other))
          << stream::to_string(in) << " -> " << stream::to_string(out);
    } while (std::next_permutation(perm.begin(), perm.end()));
  }
  EXPECT_GT(passed, 40);
}

}  // namespace
}  // namespace lowtide::core
