// SPDX-License-Identifier: Apache-2.0
#include "stream/recipe/blocks.h"

#include <gtest/gtest.h>

#include <cstring>

#include "stream/file/file.h"
#include "stream/recipe/recipe_reader.h"

namespace lowtide::stream {
namespace {

RecipeRef stored(const Shape& dims, DType dtype = DType::kFloat32) {
  const uint64_t elements = element_count(dims), length = file_bytes(dtype, elements);
  std::vector<std::byte> bytes(length);
  for (size_t i = 0; i < length; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  return recipe::stored(memory_source(std::move(bytes), "weights"), {{.bytes = length, .elements = elements}}, dtype,
                        dims);
}

uint64_t longest_run(const Box& box, const Shape& dims) {
  uint64_t longest = 0;
  for_each_run(box, dims, [&](uint64_t, uint64_t count) { longest = std::max(longest, count); });
  return longest;
}

// All blocks together are the tensor, each element once.
void expect_whole(const RecipeRef& recipe, uint64_t bytes) {
  const auto blocks = blocks_of(recipe, bytes);
  ASSERT_TRUE(blocks);
  const auto lane = static_cast<uint64_t>(lane_bytes(recipe->dtype));
  std::vector<std::byte> expected(recipe->elements() * lane), made(expected.size(), std::byte{0xaa});
  Budget budget(8 << 20);
  RecipeReader(recipe, budget).read(0, recipe->elements(), expected.data());
  std::vector<std::byte> lanes(bytes);
  uint64_t elements = 0;
  for (uint64_t i = 0; i < blocks->count(); ++i) {
    const Box box = blocks->at(i);
    ASSERT_LE(box.elements() * lane, bytes);
    elements += box.elements();
    BoxReader(blocks->recipe, budget).read(box, lanes.data());
    const std::byte* row = lanes.data();
    for_each_run(box, blocks->recipe->dims, [&](uint64_t first, uint64_t count) {
      std::memcpy(made.data() + first * lane, row, count * lane);
      row += count * lane;
    });
  }
  EXPECT_EQ(elements, recipe->elements());
  EXPECT_TRUE(made == expected);
}

TEST(Blocks, BlocksHaveLongRowsInSourceAndResult) {
  const RecipeRef turned = recipe::permute(stored({5003, 307}), {1, 0});
  const auto blocks = blocks_of(turned, 64 << 10);
  ASSERT_TRUE(blocks);
  const Box box = blocks->at(0);
  EXPECT_GE(longest_run(box, turned->dims), 64u);
  const Box read{{box.begin[1], box.begin[0]}, {box.size[1], box.size[0]}};
  EXPECT_GE(longest_run(read, {5003, 307}), 64u);
}

TEST(Blocks, BlocksCoverEachElementOnce) {
  expect_whole(recipe::permute(stored({5003, 307}), {1, 0}), 64 << 10);
  expect_whole(recipe::permute(stored({311, 6007}), {1, 0}), 10000);
  expect_whole(recipe::permute(stored({3, 2003, 101}), {0, 2, 1}), 32 << 10);
  expect_whole(recipe::permute(stored({67, 131, 29}), {2, 1, 0}), 16 << 10);
  expect_whole(recipe::permute(stored({13, 47, 3, 5, 7}), {2, 3, 4, 1, 0}), 4 << 10);
  expect_whole(recipe::permute(stored({5003, 307}, DType::kInt8), {1, 0}), 64 << 10);
  expect_whole(recipe::reshape(recipe::permute(stored({5003, 307}), {1, 0}), {307, 1, 5003}), 64 << 10);
}

TEST(Blocks, OnlyIfTheBudgetGivesShortStrips) {
  EXPECT_FALSE(blocks_of(recipe::permute(stored({64, 48, 3, 3}), {0, 2, 3, 1}), 64 << 10));  // whole filters
  EXPECT_FALSE(blocks_of(recipe::permute(stored({307, 5003}), {1, 0}), 2 << 20));            // 1,700 columns at a time
  EXPECT_FALSE(blocks_of(stored({5003, 307}), 64 << 10));
  EXPECT_FALSE(blocks_of(recipe::permute(stored({5003, 308}, DType::kInt4), {1, 0}), 64 << 10));  // half bytes
  EXPECT_FALSE(blocks_of(recipe::permute(stored({5003, 0}), {1, 0}), 64 << 10));
}

}  // namespace
}  // namespace lowtide::stream
