// SPDX-License-Identifier: Apache-2.0
#include "stream/recipe/magnitude.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>

#include "stream/error.h"
#include "stream/file/file.h"

namespace lowtide::stream {
namespace {

// Floats that are stored in a "file".
RecipeRef stored(const std::vector<float>& values, Shape dims) {
  auto bytes = std::as_bytes(std::span(values));
  FileRun all{.offset = 0, .bytes = bytes.size(), .elements = values.size()};
  return recipe::stored(memory_source({bytes.begin(), bytes.end()}, "weights"), {all}, DType::kFloat32,
                        std::move(dims));
}

std::vector<float> largest(RecipeRef input, int axis) {
  Budget budget(16 << 20);
  Magnitude one{.input = std::move(input), .axis = axis};
  measure({&one, 1}, budget, 1, nullptr);
  return one.found;
}

TEST(Measure, AlongEachAxisAlsoOfPermutedRecipes) {
  RecipeRef w = stored({1, -2, 3, -4, 5, -6}, {2, 3});
  EXPECT_EQ(largest(w, 0), (std::vector<float>{3, 6}));
  EXPECT_EQ(largest(w, 1), (std::vector<float>{4, 5, 6}));
  EXPECT_EQ(largest(w, -1), (std::vector<float>{6}));
  RecipeRef moved = recipe::permute(recipe::reshape(recipe::permute(w, {1, 0}), {3, 2, 1}), {2, 1, 0});
  EXPECT_EQ(moved->dims, (Shape{1, 2, 3}));
  EXPECT_EQ(largest(moved, 1), (std::vector<float>{3, 6}));
  EXPECT_EQ(largest(moved, 0), (std::vector<float>{6}));
  EXPECT_EQ(largest(recipe::cast(recipe::cast(moved, DType::kFloat16), DType::kFloat32), 2),
            (std::vector<float>{4, 5, 6}));
  // An axis that a reshape has merged cannot be found below it.
  EXPECT_EQ(largest(recipe::reshape(recipe::permute(w, {1, 0}), {6}), 0), (std::vector<float>{1, 4, 2, 5, 3, 6}));
}

TEST(Measure, NanIsTheLargest) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
  std::vector<float> found = largest(stored({1, -kNan, kInf, -kInf, 5, -0.0f, 0, 0}, {4, 2}), 0);
  EXPECT_TRUE(std::isnan(found[0]));
  EXPECT_EQ(found[1], kInf);
  EXPECT_EQ(found[2], 5);
  EXPECT_EQ(found[3], 0);
}

TEST(Measure, ThreadsAgreeAndReportAllBytes) {
  struct Counting : Progress {
    void begin(std::string_view, uint64_t bytes) override { total = bytes; }
    void advance(uint64_t bytes) override { done += bytes; }
    uint64_t total = 0;
    std::atomic<uint64_t> done = 0;
  };
  std::vector<float> values(3 * 7 * 400'009);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i)) * static_cast<float>(i % 1013);
  RecipeRef w = stored(values, {3, 400'009, 7});
  for (int axis : {-1, 0, 1, 2}) {
    const std::vector<float> alone = largest(w, axis);
    std::vector<Magnitude> both = {{.input = w, .axis = axis}, {.input = recipe::permute(w, {2, 0, 1}), .axis = -1}};
    Budget budget(16 << 20);
    Counting counting;
    measure(both, budget, 4, &counting);
    EXPECT_EQ(both[0].found, alone);
    EXPECT_EQ(both[1].found, largest(w, -1));
    EXPECT_EQ(counting.total, 2 * w->bytes());
    EXPECT_EQ(counting.done, counting.total);
  }
}

struct BrokenDisk : Source {
  uint64_t size() const override { return 4000; }
  const std::string& name() const override { return name_; }
  void read_at(uint64_t, std::span<std::byte>) const override { throw Error(Code::kIo, "the disk fails"); }
  std::string name_ = "broken";
};

TEST(Measure, AnErrorInOneThreadReachesTheCaller) {
  RecipeRef w = recipe::stored(std::make_shared<BrokenDisk>(), {{.offset = 0, .bytes = 4000, .elements = 1000}},
                               DType::kFloat32, {1000});
  for (int threads : {1, 3}) {
    Budget budget(16 << 20);
    Magnitude one{.input = w, .axis = -1};
    EXPECT_THROW(measure({&one, 1}, budget, threads, nullptr), Error);
  }
}

}  // namespace
}  // namespace lowtide::stream
