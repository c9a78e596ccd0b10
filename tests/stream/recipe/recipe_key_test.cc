// SPDX-License-Identifier: Apache-2.0
#include "stream/recipe/recipe_key.h"

#include <gtest/gtest.h>

#include "stream/file/file.h"

namespace lowtide::stream {
namespace {

struct Keys : testing::Test {
  Budget budget{1 << 20};
  RecipeKeys keys{budget};

  static std::vector<std::byte> bytes(size_t count, int last) {
    std::vector<std::byte> out(count);
    for (size_t i = 0; i < count; ++i) out[i] = static_cast<std::byte>(i * 7);
    out.back() = static_cast<std::byte>(last);
    return out;
  }
  static RecipeRef stored(std::shared_ptr<Source> source, uint64_t offset, int64_t elements) {
    const uint64_t size = static_cast<uint64_t>(elements) * 4;
    return recipe::stored(std::move(source), {{offset, size, static_cast<uint64_t>(elements)}}, DType::kFloat32,
                          {elements});
  }
};

TEST_F(Keys, EqualBytesAtDifferentOffsetsAreEqual) {
  auto one = memory_source(bytes(400000, 1), "one"), same = memory_source(bytes(400000, 1), "same");
  EXPECT_EQ(keys.key(stored(one, 0, 100000)), keys.key(stored(same, 0, 100000)));
  EXPECT_EQ(keys.key(recipe::permute(recipe::reshape(stored(one, 0, 100000), {100, 1000}), {1, 0})),
            keys.key(recipe::permute(recipe::reshape(stored(same, 0, 100000), {100, 1000}), {1, 0})));
}

TEST_F(Keys, ADifferentLastByteGivesAnotherKey) {
  auto one = memory_source(bytes(400000, 1), "one"), other = memory_source(bytes(400000, 2), "other");
  EXPECT_NE(keys.key(stored(one, 0, 100000)), keys.key(stored(other, 0, 100000)));
}

TEST_F(Keys, ShapesTypesAndStepsChangeTheKey) {
  auto one = memory_source(bytes(400000, 1), "one");
  RecipeRef a = stored(one, 0, 100000);
  EXPECT_NE(keys.key(a), keys.key(recipe::reshape(a, {100, 1000})));
  EXPECT_NE(keys.key(recipe::unary(Unary::kNeg, a)), keys.key(recipe::unary(Unary::kAbs, a)));
  EXPECT_NE(keys.key(stored(one, 0, 1000)), keys.key(stored(one, 0, 1001)));
  EXPECT_EQ(budget.available(), budget.limit());
}

TEST_F(Keys, InlineBytesAreCompared) {
  const std::vector<float> x{1, 2, 3}, y{1, 2, 4};
  EXPECT_EQ(keys.key(recipe::floats(x, {3})), keys.key(recipe::floats(x, {3})));
  EXPECT_NE(keys.key(recipe::floats(x, {3})), keys.key(recipe::floats(y, {3})));
}

}  // namespace
}  // namespace lowtide::stream
