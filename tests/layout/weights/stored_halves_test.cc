// SPDX-License-Identifier: Apache-2.0
// Which f32 recipes are f16 elements of the model, moved but not changed.
#include "layout/weights/stored_halves.h"

#include <gtest/gtest.h>

#include "stream/recipe/recipe_reader.h"

namespace lowtide::layout {
namespace {

using stream::DType;
using stream::RecipeRef;
namespace recipe = stream::recipe;

struct StoredHalves : testing::Test {
  stream::Budget budget{16 << 20};
  // 0.5, 1.5, ... and a signalling NaN, whose bits arithmetic would change.
  RecipeRef halves = [] {
    std::vector<uint16_t> bits;
    for (uint16_t i = 0; i < 24; ++i) bits.push_back(static_cast<uint16_t>(0x3800 + 7 * i));
    bits[5] = 0x7C01;
    return recipe::values<uint16_t>(bits, DType::kFloat16, {4, 6});
  }();
  RecipeRef floats = recipe::cast(halves, DType::kFloat32);

  std::vector<std::byte> bytes(const RecipeRef& r) { return stream::evaluate(r, budget); }
  // The elements are those of the f32 recipe, and nothing is cast.
  void expect_exact(const RecipeRef& weight) {
    const RecipeRef found = stored_halves(weight);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->dtype, DType::kFloat16);
    EXPECT_EQ(found->dims, weight->dims);
    EXPECT_EQ(bytes(recipe::cast(found, DType::kFloat32)), bytes(weight));
  }
};

TEST_F(StoredHalves, MovementsAreDoneToTheHalves) {
  expect_exact(floats);
  EXPECT_EQ(stored_halves(floats), halves);
  expect_exact(recipe::permute(floats, {1, 0}));
  expect_exact(recipe::reshape(recipe::permute(floats, {1, 0}), {2, 12}));
  expect_exact(recipe::slice(floats, {1, 4}, {2, 3}, {2, -1}));
  expect_exact(recipe::concat({recipe::permute(floats, {1, 0}), recipe::reshape(floats, {6, 4})}, 1));
  expect_exact(recipe::gather(floats, 0, {3, 0, 0, 2}));
  expect_exact(recipe::broadcast(floats, {3, 4, 6}));
  const float zero = 0;
  const auto lane = std::as_bytes(std::span(&zero, 1));
  expect_exact(recipe::pad(floats, {1, 0}, {2, 3}, {lane.begin(), lane.end()}));
}

TEST_F(StoredHalves, TheBitsOfNaNsStay) {
  const RecipeRef turned = stored_halves(recipe::permute(floats, {1, 0}));
  EXPECT_EQ(bytes(turned), bytes(recipe::permute(halves, {1, 0})));
}

TEST_F(StoredHalves, WhatIsJoinedMustBeExact) {
  const std::vector<float> exact(6, -0.25F), inexact(6, 0.1F), large(6, 70000.0F);
  expect_exact(recipe::concat({floats, recipe::floats(exact, {1, 6})}, 0));
  expect_exact(recipe::concat({floats, recipe::fill_value(2, DType::kFloat32, {3, 6})}, 0));
  EXPECT_FALSE(stored_halves(recipe::concat({floats, recipe::floats(inexact, {1, 6})}, 0)));
  EXPECT_FALSE(stored_halves(recipe::concat({floats, recipe::floats(large, {1, 6})}, 0)));
  EXPECT_FALSE(stored_halves(recipe::concat({floats, recipe::fill_value(0.1, DType::kFloat32, {3, 6})}, 0)));
  const float tenth = 0.1F;
  const auto lane = std::as_bytes(std::span(&tenth, 1));
  EXPECT_FALSE(stored_halves(recipe::pad(floats, {1, 0}, {2, 3}, {lane.begin(), lane.end()})));
}

TEST_F(StoredHalves, ArithmeticIsNotExact) {
  const RecipeRef scaled = recipe::binary(stream::Binary::kMul, floats, recipe::fill_value(2, DType::kFloat32, {1, 6}));
  EXPECT_FALSE(stored_halves(scaled));
  EXPECT_TRUE(reads_halves(scaled));
  EXPECT_FALSE(stored_halves(recipe::unary(stream::Unary::kAbs, floats)));
  EXPECT_FALSE(stored_halves(recipe::concat({floats, scaled}, 0)));
}

TEST_F(StoredHalves, FloatsThatFitAreNotTheModelsHalves) {
  const std::vector<float> exact(24, 0.5F);
  const RecipeRef weight = recipe::floats(exact, {4, 6});
  EXPECT_FALSE(stored_halves(weight));
  EXPECT_FALSE(reads_halves(weight));
  EXPECT_FALSE(stored_halves(recipe::cast(recipe::cast(halves, DType::kBFloat16), DType::kFloat32)));
}

}  // namespace
}  // namespace lowtide::layout
