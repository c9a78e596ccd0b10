// SPDX-License-Identifier: Apache-2.0
#include "stream/recipe/recipe_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "stream/error.h"
#include "stream/file/file.h"
#include "stream/recipe/step_reader.h"
#include "tests/stream/recipe/tiles.h"
#include "tests/stream/scratch.h"

namespace lowtide::stream {
namespace {

using testing::ElementsAre;

constexpr uint64_t kReaderMiB = 1024 * 1024;

std::vector<std::byte> lanes_with_tiles(const RecipeRef& recipe, uint64_t tile_bytes) {
  Budget budget(16 * kReaderMiB);
  Needs needs = needs_of(*recipe);
  Scratch scratch(budget, needs.tiles, tile_bytes, needs.kept);
  std::vector<std::byte> out(recipe->elements() * static_cast<uint64_t>(lane_bytes(recipe->dtype)));
  if (!out.empty()) make_reader(*recipe, scratch)->read(whole(recipe->dims), out.data());
  return out;
}

// A file of any size: element i of f32 holds i mod 2^20.
class CountingSource : public Source {
 public:
  explicit CountingSource(uint64_t elements) : size_(elements * 4) {}
  uint64_t size() const override { return size_; }
  const std::string& name() const override { return name_; }
  void read_at(uint64_t offset, std::span<std::byte> out) const override {
    ASSERT_EQ(offset % 4, 0u);
    auto* values = reinterpret_cast<float*>(out.data());
    for (size_t i = 0; i < out.size() / 4; ++i) values[i] = value(offset / 4 + i);
    ++calls;
    bytes += out.size();
  }
  static float value(uint64_t element) { return static_cast<float>(element % (1u << 20)); }

  mutable uint64_t calls = 0, bytes = 0;

 private:
  uint64_t size_;
  std::string name_ = "counting";
};

std::pair<std::shared_ptr<CountingSource>, RecipeRef> counting(const Shape& dims) {
  uint64_t elements = element_count(dims);
  auto source = std::make_shared<CountingSource>(elements);
  return {source, recipe::stored(source, {{0, elements * 4, elements, Encoding::kRaw, 0}}, DType::kFloat32, dims)};
}

// Reads the first, a middle and the last megabyte and returns the highest budget used.
template <typename Value>
uint64_t probe(const RecipeRef& recipe, Value value) {
  Budget budget(4 * kReaderMiB);
  RecipeReader reader(recipe, budget);
  uint64_t elements = recipe->elements(), count = reader.good_count(kReaderMiB);
  std::vector<float> out(count);
  for (uint64_t first : {uint64_t{0}, elements / 2 + 1, elements - count}) {
    reader.read(first, count, reinterpret_cast<std::byte*>(out.data()));
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < count; ++i) wrong += out[i] != value(first + i);
    EXPECT_EQ(wrong, 0u) << "from element " << first;
  }
  return budget.high_water();
}

TEST(RecipeReader, GigabytesAreReadInFourMegabytes) {
  {
    auto [source, weights] = counting({16384, 16384});
    EXPECT_LE(probe(recipe::permute(weights, {1, 0}),
                    [](uint64_t i) { return CountingSource::value(i % 16384 * 16384 + i / 16384); }),
              4 * kReaderMiB);
  }
  {
    auto [source, weights] = counting({8192, 3641, 3, 3});  // OIHW to OHWI
    uint64_t most = probe(recipe::permute(weights, {0, 2, 3, 1}), [](uint64_t i) {
      uint64_t in = i % 3641, hw = i / 3641 % 9, out = i / 3641 / 9;
      return CountingSource::value((out * 3641 + in) * 9 + hw);
    });
    EXPECT_LE(most, 4 * kReaderMiB);
    EXPECT_LE(source->bytes, 4 * 3 * kReaderMiB);
  }
  {
    auto [source, weights] = counting({41, 97, 31, 29, 53});
    probe(recipe::permute(weights, {3, 1, 4, 0, 2}), [](uint64_t i) {
      uint64_t c = i % 31, a = i / 31 % 41, e = i / 31 / 41 % 53, b = i / 31 / 41 / 53 % 97, d = i / 31 / 41 / 53 / 97;
      return CountingSource::value((((a * 97 + b) * 31 + c) * 29 + d) * 53 + e);
    });
  }
  {
    auto [source, weights] = counting({20000, 13001});
    RecipeRef back = recipe::slice(weights, {19999, 12999}, {10000, 6500}, {-2, -2});
    probe(back,
          [](uint64_t i) { return CountingSource::value((19999 - i / 6500 * 2) * 13001 + 12999 - i % 6500 * 2); });
  }
  {
    auto [source, weights] = counting({1, 9001});
    probe(recipe::broadcast(weights, {30011, 9001}), [](uint64_t i) { return CountingSource::value(i % 9001); });
  }
  {
    std::vector<RecipeRef> parts;
    for (int i = 0; i < 1000; ++i) parts.push_back(counting({251, 1009}).second);
    probe(recipe::concat(parts, 0), [](uint64_t i) { return CountingSource::value(i % (251 * 1009)); });
    probe(recipe::concat(parts, 1),
          [](uint64_t i) { return CountingSource::value(i / 1009000 * 1009 + i % 1009000 % 1009); });
  }
}

TEST(RecipeReader, ContiguousRowsAreOneRead) {
  auto [source, weights] = counting({64, 33, 3, 5});
  Budget budget(4 * kReaderMiB);
  std::vector<float> out(weights->elements());
  RecipeReader reader(recipe::permute(weights, {0, 2, 3, 1}), budget);
  reader.read(0, out.size(), reinterpret_cast<std::byte*>(out.data()));
  EXPECT_EQ(source->calls, 1u);
}

TEST(RecipeReader, ShortRowsAreReadAsOneRange) {
  auto [source, weights] = counting({1000, 128});
  Budget budget(4 * kReaderMiB);
  RecipeRef columns = recipe::slice(weights, {0, 17}, {1000, 3}, {1, 1});
  std::vector<float> out(3000);
  RecipeReader(recipe::permute(columns, {1, 0}), budget).read(0, 3000, reinterpret_cast<std::byte*>(out.data()));
  EXPECT_LE(source->calls, 8u);
  for (uint64_t i = 0; i < 3000; ++i) ASSERT_EQ(out[i], CountingSource::value(i % 1000 * 128 + 17 + i / 1000));
}

TEST(RecipeReader, SumsDoNotDependOnTiles) {
  std::vector<float> values(40000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i)) * 1e3f + 1e-3f;
  RecipeRef input = recipe::floats(values, {50, 40, 20});
  for (std::vector<int> axes : {std::vector<int>{0}, {1}, {2}, {0, 2}, {0, 1, 2}}) {
    RecipeRef sum = recipe::reduce(Reduction::kSum, input, axes);
    std::vector<std::byte> once = lanes_with_tiles(sum, kReaderMiB);
    for (uint64_t tile : {64u, 320u, 4096u}) EXPECT_EQ(lanes_with_tiles(sum, tile), once);
  }
  double expected = 0;
  for (float value : values) expected += value;
  Budget budget(kReaderMiB);
  EXPECT_EQ(evaluate_doubles(recipe::reduce(Reduction::kSum, input, {0, 1, 2}), budget)[0],
            static_cast<float>(expected));
}

TEST(RecipeReader, PacksNibbles) {
  std::vector<int64_t> values = {1, -8, 7, -1, 3, 0, -5};
  RecipeRef recipe = recipe::ints(values, DType::kInt4, {7});
  Budget budget(kReaderMiB);
  RecipeReader reader(recipe, budget);
  std::vector<std::byte> out(4);
  reader.read_file_bytes(0, 7, out.data());
  EXPECT_THAT(out, ElementsAre(std::byte{0x81}, std::byte{0xf7}, std::byte{0x03}, std::byte{0x0b}));
  reader.read_file_bytes(2, 3, out.data());
  EXPECT_EQ(out[0], std::byte{0xf7});
  EXPECT_EQ(out[1], std::byte{0x03});
  EXPECT_THROW(reader.read_file_bytes(1, 2, out.data()), Error);
  EXPECT_EQ(reader.good_count(3) % 2, 0u);
}

TEST(RecipeReader, OutputMayBeUnaligned) {
  std::vector<int64_t> values(200 * 300);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i) * 77777777777;
  RecipeRef turned = recipe::permute(recipe::ints(values, DType::kInt64, {200, 300}), {1, 0});
  Budget budget(2 * kReaderMiB);
  std::vector<std::byte> straight = evaluate(turned, budget), shifted(straight.size() + 8);
  for (size_t shift : {1u, 4u, 8u}) {
    RecipeReader(turned, budget).read(0, values.size(), shifted.data() + shift);
    EXPECT_TRUE(std::equal(straight.begin(), straight.end(), shifted.begin() + static_cast<ptrdiff_t>(shift)));
  }
}

TEST(RecipeReader, VarintsCanBeReadBackwards) {
  std::vector<std::byte> bytes;
  constexpr int64_t kCount = 100000;
  for (int64_t i = 0; i < kCount; ++i)
    for (auto rest = static_cast<uint64_t>(i % 3 == 0 ? -i : i * 77);; rest >>= 7) {
      bytes.push_back(static_cast<std::byte>((rest & 0x7f) | (rest >= 0x80 ? 0x80 : 0)));
      if (rest < 0x80) break;
    }
  FileRun file_run{0, bytes.size(), kCount, Encoding::kVarint, 0};
  RecipeRef recipe = recipe::stored(memory_source(bytes, "m"), {file_run}, DType::kInt64, {kCount});
  Budget budget(kReaderMiB);
  RecipeReader reader(recipe, budget);
  for (int64_t first = kCount - 1000; first >= 0; first -= 7919) {
    std::vector<int64_t> out(1000);
    reader.read(static_cast<uint64_t>(first), 1000, reinterpret_cast<std::byte*>(out.data()));
    for (int64_t i = 0; i < 1000; ++i)
      ASSERT_EQ(out[static_cast<size_t>(i)], (first + i) % 3 == 0 ? -(first + i) : (first + i) * 77);
  }
}

RecipeRef varints(std::vector<uint8_t> data, uint64_t elements) {
  std::vector<std::byte> bytes(data.size());
  std::transform(data.begin(), data.end(), bytes.begin(), [](uint8_t b) { return std::byte{b}; });
  FileRun file_run{0, bytes.size(), elements, Encoding::kVarint, 0};
  return recipe::stored(memory_source(bytes, "m"), {file_run}, DType::kInt32, {static_cast<Dim>(elements)});
}

TEST(RecipeReader, BrokenVarintsAreErrors) {
  Budget budget(kReaderMiB);
  std::vector<uint8_t> endless(20, 0x80);
  EXPECT_EQ(code_of([&] { evaluate(varints(endless, 3), budget); }), Code::kMalformed);
  EXPECT_EQ(code_of([&] { evaluate(varints({1, 2, 0x80}, 3), budget); }), Code::kMalformed);
  EXPECT_EQ(code_of([&] { evaluate(varints({1, 2, 3}, 2), budget); }), Code::kMalformed);
}

TEST(RecipeReader, ErrorsOfUse) {
  Budget budget(kReaderMiB), none(1024);
  RecipeRef large = recipe::reshape(recipe::iota(0, 1, DType::kInt32, 1 << 20), {1 << 10, 1 << 10});
  EXPECT_EQ(code_of([&] { evaluate(large, budget); }), Code::kInternal);
  EXPECT_EQ(code_of([&] { RecipeReader(recipe::permute(large, {1, 0}), none); }), Code::kBudget);
  RecipeReader reader(large, budget);
  std::byte out[8];
  EXPECT_EQ(code_of([&] { reader.read(1 << 20, 1, out); }), Code::kInternal);
  RecipeRef zeros = recipe::ints(std::vector<int64_t>{1, 0}, DType::kInt32, {2});
  EXPECT_EQ(code_of([&] { evaluate(recipe::binary(Binary::kDiv, zeros, zeros), budget); }), Code::kMalformed);
}

TEST(RecipeReader, EmptyTensorsHaveNoBytes) {
  Budget budget(kReaderMiB);
  EXPECT_TRUE(evaluate(recipe::floats({}, {3, 0, 5}), budget).empty());
  RecipeRef empty = recipe::permute(recipe::floats({}, {3, 0, 5}), {2, 0, 1});
  EXPECT_EQ(empty->dims, (Shape{5, 3, 0}));
  EXPECT_THAT(evaluate_doubles(recipe::reduce(Reduction::kSum, empty, {2}), budget), testing::SizeIs(15));
  EXPECT_EQ(evaluate_doubles(recipe::reduce(Reduction::kMax, empty, {0, 1, 2}), budget)[0], -INFINITY);
}

}  // namespace
}  // namespace lowtide::stream
