// SPDX-License-Identifier: Apache-2.0
#include "stream/recipe/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "stream/error.h"
#include "stream/file/file.h"
#include "tests/stream/scratch.h"

namespace lowtide::stream {
namespace {

using testing::ElementsAre;

std::shared_ptr<Source> file(uint64_t bytes) { return memory_source(std::vector<std::byte>(bytes), "weights.bin"); }

RecipeRef weights(const Shape& dims, DType dtype = DType::kFloat32) {
  uint64_t bytes = file_bytes(dtype, element_count(dims));
  return recipe::stored(file(bytes), {{0, bytes, element_count(dims), Encoding::kRaw, 0}}, dtype, dims);
}

template <typename Step>
bool is(const RecipeRef& recipe) {
  return std::holds_alternative<Step>(recipe->step);
}

float value_of(const RecipeRef& recipe) {
  float value = 0;
  std::memcpy(&value, std::get<step::Fill>(recipe->step).lane.data(), sizeof(value));
  return value;
}

TEST(Recipe, PermutationsMergeAndIdentitiesAreRemoved) {
  RecipeRef w = weights({2, 3, 5, 7});
  EXPECT_EQ(recipe::permute(w, {0, 1, 2, 3}), w);
  RecipeRef once = recipe::permute(w, {0, 2, 3, 1});
  EXPECT_EQ(once->dims, (Shape{2, 5, 7, 3}));
  EXPECT_EQ(recipe::permute(once, {0, 3, 1, 2}), w);
  RecipeRef twice = recipe::permute(once, {3, 0, 1, 2});
  EXPECT_EQ(std::get<step::Permute>(twice->step).perm, (Perm{1, 0, 2, 3}));
  EXPECT_EQ(twice->from[0], w);
  EXPECT_TRUE(is<step::Stored>(recipe::permute(weights({4, 1, 6}), {1, 0, 2})));
}

TEST(Recipe, ShapeStepsMoveBelowElementwiseSteps) {
  RecipeRef w = weights({2, 3, 5}, DType::kFloat16);
  RecipeRef cast = recipe::cast(recipe::permute(w, {2, 0, 1}), DType::kFloat32);
  EXPECT_EQ(recipe::permute(cast, {1, 2, 0})->from[0], w);
  RecipeRef flat = recipe::reshape(recipe::unary(Unary::kNeg, w), {30});
  EXPECT_TRUE(is<step::Unary>(flat));
  EXPECT_TRUE(is<step::Stored>(flat->from[0]));
  RecipeRef permuted = recipe::permute(w, {2, 1, 0});
  RecipeRef shaped = recipe::reshape(recipe::reshape(permuted, {6, 5}), {3, 10});
  EXPECT_TRUE(is<step::Reshape>(shaped));
  EXPECT_EQ(shaped->from[0], permuted);
  EXPECT_EQ(recipe::reshape(shaped, permuted->dims), permuted);
}

TEST(Recipe, RoundTripCastsAreRemovedOnlyIfLossless) {
  RecipeRef half = weights({3, 5}, DType::kFloat16), single = weights({3, 5});
  EXPECT_EQ(recipe::cast(single, DType::kFloat32), single);
  EXPECT_EQ(recipe::cast(recipe::cast(half, DType::kFloat32), DType::kFloat16), half);
  EXPECT_NE(recipe::cast(recipe::cast(single, DType::kFloat16), DType::kFloat32), single);
  RecipeRef i32 = weights({3}, DType::kInt32), u32 = weights({3}, DType::kUint32);
  EXPECT_NE(recipe::cast(recipe::cast(i32, DType::kFloat32), DType::kInt32), i32);
  EXPECT_EQ(recipe::cast(recipe::cast(i32, DType::kFloat64), DType::kInt32), i32);
  EXPECT_EQ(recipe::cast(recipe::cast(u32, DType::kInt64), DType::kUint32), u32);
}

TEST(Recipe, SlicesMergeAndFullSlicesAreRemoved) {
  RecipeRef w = weights({20, 30});
  EXPECT_EQ(recipe::slice(w, {0, 0}, {20, 30}, {1, 1}), w);
  RecipeRef once = recipe::slice(w, {18, 1}, {9, 29}, {-2, 1});
  RecipeRef twice = recipe::slice(once, {1, 28}, {4, 10}, {2, -1});
  EXPECT_EQ(twice->from[0], w);
  EXPECT_THAT(std::get<step::Slice>(twice->step).begin, ElementsAre(16, 29));
  EXPECT_THAT(std::get<step::Slice>(twice->step).stride, ElementsAre(-4, -1));
  RecipeRef range = recipe::slice(recipe::iota(5, 3, DType::kInt32, 10), {9}, {4}, {-2});
  EXPECT_EQ(std::get<step::Iota>(range->step).start, 32);
  EXPECT_EQ(std::get<step::Iota>(range->step).delta, -6);
}

TEST(Recipe, FillsStayFills) {
  RecipeRef two = recipe::fill_value(2, DType::kFloat32, {3, 1, 5}),
            three = recipe::fill_value(3, DType::kFloat32, {7, 1});
  RecipeRef six = recipe::binary(Binary::kMul, two, three);
  EXPECT_EQ(six->dims, (Shape{3, 7, 5}));
  EXPECT_EQ(value_of(six), 6);
  RecipeRef x = recipe::permute(six, {2, 0, 1});
  x = recipe::slice(x, {0, 0, 1}, {2, 3, 4}, {2, 1, 1});
  x = recipe::pad(x, {1, 0, 0}, {0, 2, 0}, std::get<step::Fill>(x->step).lane);
  x = recipe::concat({x, x}, 2);
  x = recipe::broadcast(recipe::reshape(x, {3, 1, 40}), {3, 4, 40});
  x = recipe::gather(recipe::unary(Unary::kNeg, x), 1, {3, 0});
  x = recipe::cast(recipe::cast(x, DType::kInt32), DType::kFloat32);
  x = recipe::dequantize(recipe::quantize(x, DType::kInt8, {0.5f}, {1}, -1), {0.5f}, {1}, -1);
  RecipeRef scalar = recipe::fill_value(2, DType::kFloat32, {});
  x = recipe::select(recipe::binary(Binary::kLess, x, scalar), x, scalar);
  EXPECT_EQ(x->dims, (Shape{3, 2, 40}));
  EXPECT_EQ(value_of(x), -6);
  EXPECT_TRUE(is<step::Fill>(recipe::permute(recipe::floats({}, {2, 0, 3}), {2, 1, 0})));
}

TEST(Recipe, ShapeStepsStayAboveQuantization) {
  RecipeRef w = weights({2, 3, 5});
  RecipeRef q = recipe::quantize(recipe::permute(w, {2, 0, 1}), DType::kInt8, {1, 2, 3}, {}, 2);
  EXPECT_EQ(q->dims, (Shape{5, 2, 3}));
  ASSERT_TRUE(is<step::Permute>(q));
  ASSERT_TRUE(is<step::Quantize>(q->from[0]));
  EXPECT_EQ(std::get<step::Quantize>(q->from[0]->step).axis, 1);
  EXPECT_EQ(q->from[0]->from[0], w);
}

TEST(Recipe, ConcatenationsOfOneInputAreRemoved) {
  RecipeRef w = weights({2, 3}), none = recipe::floats({}, {2, 0});
  EXPECT_EQ(recipe::concat({w}, 1), w);
  EXPECT_EQ(recipe::concat({none, w, none}, 1), w);
  EXPECT_EQ(recipe::concat({recipe::concat({w, w}, 1), w}, 1)->from.size(), 3u);
  EXPECT_EQ(recipe::broadcast(w, {2, 3}), w);
  EXPECT_EQ(recipe::pad(w, {0, 0}, {0, 0}, std::vector<std::byte>(4)), w);
  EXPECT_EQ(recipe::gather(w, 1, {0, 1, 2}), w);
  EXPECT_TRUE(is<step::Slice>(recipe::gather(w, 1, {1, 2})));
  EXPECT_TRUE(is<step::Slice>(recipe::pad(w, {0, 0}, {0, -1}, std::vector<std::byte>(4))));
  EXPECT_EQ(recipe::reduce(Reduction::kSum, w, {}), w);
}

TEST(Recipe, PlainStored) {
  EXPECT_NE(recipe::plain_stored(*recipe::reshape(weights({2, 3}), {6})), nullptr);
  EXPECT_EQ(recipe::plain_stored(*recipe::permute(weights({2, 3}), {1, 0})), nullptr);
  FileRun half{0, 12, 3, Encoding::kRaw, 0}, rest{12, 12, 3, Encoding::kRaw, 0};
  EXPECT_EQ(recipe::plain_stored(*recipe::stored(file(24), {half, rest}, DType::kFloat32, {6})), nullptr);
}

TEST(Recipe, SlicesOfWholeRowsAreStored) {
  RecipeRef w = recipe::stored(file(4 + 4 * 60), {{4, 240, 60, Encoding::kRaw, 0}}, DType::kFloat32, {3, 4, 5});
  auto place = [&](std::vector<int64_t> begin, Shape size, std::vector<int64_t> stride) {
    const RecipeRef sliced = recipe::slice(w, begin, size, stride);
    const step::Stored* part = recipe::plain_stored(*sliced);
    return part ? std::pair(part->file_runs[0].offset, part->file_runs[0].bytes) : std::pair(uint64_t{0}, uint64_t{0});
  };
  using Place = std::pair<uint64_t, uint64_t>;
  EXPECT_EQ(place({1, 0, 0}, {2, 4, 5}, {1, 1, 1}), Place(4 + 80, 160));
  EXPECT_EQ(place({1, 1, 0}, {1, 2, 5}, {1, 1, 1}), Place(4 + 80 + 20, 40));
  EXPECT_EQ(place({2, 3, 1}, {1, 1, 3}, {1, 1, 1}), Place(4 + 220 + 4, 12));
  EXPECT_EQ(place({2, 3, 1}, {1, 1, 1}, {7, -1, 1}), Place(4 + 220 + 4, 4));
  EXPECT_EQ(place({0, 1, 0}, {2, 2, 5}, {1, 1, 1}), Place());
  EXPECT_EQ(place({2, 0, 0}, {2, 4, 5}, {-1, 1, 1}), Place());
  EXPECT_EQ(place({0, 0, 0}, {3, 4, 4}, {1, 1, 1}), Place());
}

TEST(Recipe, StoredDataMustHoldTheElements) {
  auto make = [](FileRun file_run, DType dtype, Shape dims) { recipe::stored(file(100), {file_run}, dtype, dims); };
  make({4, 96, 24, Encoding::kRaw, 0}, DType::kFloat32, {24});
  make({0, 4, 7, Encoding::kRaw, 0}, DType::kInt4, {7});
  expect_error(Code::kMalformed, "after the end of the file", [&] {
    make({8, 96, 24, Encoding::kRaw, 0}, DType::kFloat32, {24});
  });
  expect_error(Code::kMalformed, "overflows", [&] {
    make({~uint64_t{0}, 4, 1, Encoding::kRaw, 0}, DType::kFloat32, {1});
  });
  expect_error(Code::kMalformed, "95 bytes of data for 24", [&] {
    make({0, 95, 24, Encoding::kRaw, 0}, DType::kFloat32, {24});
  });
  expect_error(Code::kMalformed, "24 elements of data", [&] {
    make({0, 96, 24, Encoding::kRaw, 0}, DType::kFloat32, {25});
  });
  expect_error(Code::kMalformed, "9 bytes of data for 10", [&] {
    make({0, 9, 10, Encoding::kVarint, 0}, DType::kInt64, {10});
  });
  expect_error(Code::kMalformed, "40 bytes of data", [&] {
    make({0, 40, 10, Encoding::kTagged, 4}, DType::kFloat32, {10});
  });
  expect_error(Code::kMalformed, "words of 4 bytes", [&] {
    make({0, 50, 10, Encoding::kTagged, 4}, DType::kFloat64, {10});
  });
  EXPECT_EQ(code_of([&] { make({0, 0, 0, Encoding::kRaw, 0}, DType::kString, {0}); }), Code::kUnsupported);
}

TEST(Recipe, WrongStepsAreErrors) {
  RecipeRef w = weights({4, 6}), i = weights({4, 6}, DType::kInt32);
  expect_error(Code::kMalformed, "no permutation", [&] { recipe::permute(w, {0, 0}); });
  expect_error(Code::kMalformed, "permutation", [&] { recipe::permute(w, {0}); });
  expect_error(Code::kMalformed, "[4,6] cannot become [5,5]", [&] { recipe::reshape(w, {5, 5}); });
  expect_error(Code::kMalformed, "leaves axis 1", [&] { recipe::slice(w, {0, 2}, {4, 5}, {1, 1}); });
  expect_error(Code::kMalformed, "leaves axis 1", [&] { recipe::slice(w, {0, 0}, {4, 2}, {1, 0}); });
  expect_error(Code::kMalformed, "leaves axis 1", [&] { recipe::slice(w, {0, 0}, {4, 3}, {1, INT64_MAX}); });
  expect_error(Code::kMalformed, "concatenation", [&] { recipe::concat({w, weights({5, 6})}, 1); });
  expect_error(Code::kMalformed, "axis 2", [&] { recipe::concat({w, w}, 2); });
  expect_error(Code::kMalformed, "broadcast", [&] { recipe::broadcast(w, {4, 7}); });
  expect_error(Code::kMalformed, "broadcast", [&] { recipe::broadcast(w, {1, 6}); });
  expect_error(Code::kMalformed, "leave nothing", [&] { recipe::pad(w, {-3, 0}, {-2, 0}, std::vector<std::byte>(4)); });
  expect_error(Code::kMalformed, "overflow", [&] {
    recipe::pad(w, {INT64_MAX, 0}, {INT64_MAX, 0}, std::vector<std::byte>(4));
  });
  expect_error(Code::kMalformed, "index 6", [&] { recipe::gather(w, 1, {6}); });
  expect_error(Code::kMalformed, "do not broadcast", [&] { recipe::binary(Binary::kAdd, w, weights({5, 6})); });
  expect_error(Code::kMalformed, "2 scales", [&] { recipe::quantize(w, DType::kInt8, {1, 2}, {0, 0}, 1); });
  expect_error(Code::kMalformed, "zero point 200", [&] { recipe::quantize(w, DType::kInt8, {1}, {200}, -1); });
  EXPECT_EQ(code_of([&] { recipe::binary(Binary::kAdd, w, i); }), Code::kInternal);
  EXPECT_EQ(code_of([&] { recipe::unary(Unary::kSqrt, i); }), Code::kUnsupported);
  EXPECT_EQ(code_of([&] { recipe::cast(weights({3}, DType::kFloat32), DType::kFloat8E8M0); }), Code::kUnsupported);
  EXPECT_EQ(code_of([&] { recipe::ints(std::vector<int64_t>{300}, DType::kInt8, {1}); }), Code::kMalformed);
  EXPECT_EQ(code_of([&] {
              RecipeRef x = w;
              for (int k = 0; k <= kMaxSteps; ++k) x = recipe::unary(Unary::kNeg, x);
            }),
            Code::kUnsupported);
}

RecipeRef doubled(const RecipeRef& x) { return recipe::concat({x, x}, 0); }

TEST(Recipe, WorkCountsWhatAnElementIsMadeOf) {
  RecipeRef x = weights({1, 3000});
  EXPECT_EQ(recipe::work(*x), 3000u);
  for (int i = 0; i < 20; ++i) x = recipe::reduce(Reduction::kMax, doubled(x), {0});
  EXPECT_LE(x->steps, 41);
  EXPECT_GE(recipe::work(*x), uint64_t{3000} << 20);
  for (int i = 0; i < 60; ++i) x = recipe::reduce(Reduction::kMax, doubled(x), {0});
  EXPECT_EQ(recipe::work(*x), UINT64_MAX);
}

// Norms of the rows are worked out once where they are kept, and once for each row where they are not.
TEST(Recipe, WorkOfNormsIsThatOfTheWeights) {
  for (const Dim rows : {512, 40000}) {
    const RecipeRef w = weights({rows, 700});
    const RecipeRef norms = recipe::reduce(Reduction::kSum, recipe::unary(Unary::kSquare, w), {1});
    EXPECT_LE(recipe::work(*recipe::binary(Binary::kDiv, w, norms)), 10 * w->elements());
  }
}

TEST(Recipe, PartsOfPartsAreNotListedWithoutEnd) {
  RecipeRef x = recipe::concat({weights({1, 5}), weights({2, 5})}, 0);
  for (int i = 0; i < 34; ++i) x = doubled(x);
  EXPECT_EQ(x->dims[0], Dim{3} << 34);
  EXPECT_LE(x->from.size(), 1024u);
}

TEST(Recipe, SumsOfEqualElementsAreExact) {
  RecipeRef sum = recipe::reduce(Reduction::kSum, recipe::fill_value(1.5, DType::kFloat32, {1 << 29, 3}), {0});
  ASSERT_TRUE(is<step::Fill>(sum));
  EXPECT_EQ(value_of(sum), 1.5F * (1 << 29));
  EXPECT_TRUE(is<step::Reduce>(
      recipe::reduce(Reduction::kSum, recipe::fill_value(1.5, DType::kFloat32, {(1 << 29) + 1, 3}), {0})));
  sum = recipe::reduce(Reduction::kSum, recipe::fill_value(-3, DType::kInt32, {1 << 30}), {0});
  int32_t wrapped = 0;
  std::memcpy(&wrapped, std::get<step::Fill>(sum->step).lane.data(), sizeof wrapped);
  EXPECT_EQ(wrapped, static_cast<int32_t>(-3 * (int64_t{1} << 30)));
}

}  // namespace
}  // namespace lowtide::stream
