// SPDX-License-Identifier: Apache-2.0
#include "emit/two_passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "emit/tflite_writer.h"
#include "emit/verify.h"
#include "stream/error.h"
#include "tests/emit/models.h"

namespace lowtide::emit {
namespace {

namespace fs = std::filesystem;
using core::DType;
using core::Kind;
using stream::RecipeRef;

constexpr uint64_t kMebi = uint64_t{1} << 20;

RecipeRef transposed_ramp(int64_t rows, int64_t columns) {
  const auto elements = static_cast<size_t>(rows * columns);
  return stream::recipe::permute(stored(ramp(elements, 1, 1e-3F), {columns, rows}), {1, 0});
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class TwoPassesFile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::path(testing::TempDir()) / "two_passes" / testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  // The file of a model. 256 KiB are too few for two passes.
  std::string written(const Made& made, int threads, uint64_t bytes) {
    WriteOptions options;
    options.threads = threads;
    stream::Budget budget(bytes);
    write_tflite(*made.model, folder_ / "m.tflite", budget, options);
    return text_of(folder_ / "m.tflite");
  }
  fs::path folder_;
};

TEST(TwoPasses, AreForMatricesWithSpaceInFront) {
  const RecipeRef matrix = transposed_ramp(700, 601);
  const uint64_t bytes = 700 * 601 * 4;
  const auto made = [&](const RecipeRef& recipe, uint64_t space) {
    return two_passes_of(recipe, 5 * kMebi, space, kMebi, kMebi, 2 * kMebi);
  };
  const std::optional<TwoPasses> passes = made(matrix, 100);
  ASSERT_TRUE(passes);
  EXPECT_EQ(passes->space, 4096);
  EXPECT_EQ(passes->space_bytes(), bytes);  // rows of the input are shorter than those of a panel would be
  EXPECT_EQ(passes->first_row, 0);
  EXPECT_EQ(passes->panels(), 1);
  EXPECT_LE(passes->band_bytes(), kMebi);
  EXPECT_EQ(passes->bands(), 2);
  EXPECT_EQ(passes->chunks(0), 2);
  EXPECT_LE(passes->chunk_buffer_bytes(), 2 * kMebi);
  EXPECT_TRUE(made(stream::recipe::reshape(matrix, {7, 100, 601}), 0));
  EXPECT_TRUE(made(matrix, 5 * kMebi / 4096 * 4096 - bytes / 4096 * 4096 - 4096));
  EXPECT_EQ(made(matrix, 5 * kMebi - bytes)->space, 5 * kMebi - bytes);  // not in pages, where that would not fit
  EXPECT_FALSE(made(matrix, 5 * kMebi - bytes + 4096));
  EXPECT_FALSE(made(matrix, 8 * kMebi));
  EXPECT_FALSE(made(stream::recipe::permute(matrix, {1, 0}), 0));  // not transposed
  EXPECT_FALSE(made(transposed_ramp(4001, 61), 0));                // a chunk has long rows of the input
  EXPECT_FALSE(made(transposed_ramp(50001, 13), 0));               // a band has short rows
  EXPECT_FALSE(two_passes_of(matrix, 5 * kMebi, 0, kMebi, 32 << 10, 32 << 10));
}

TEST(TwoPasses, DivideLargeMatricesIntoPanels) {
  const RecipeRef matrix = transposed_ramp(5003, 1201);
  const uint64_t row_bytes = 1201 * 4;
  const auto made = [&](uint64_t position) { return two_passes_of(matrix, position, 0, kMebi, kMebi, 2 * kMebi); };
  const std::optional<TwoPasses> behind = made(10 * kMebi);
  ASSERT_TRUE(behind);
  EXPECT_EQ(behind->panel_rows, 2048);  // 8 KiB of each row of the input
  EXPECT_EQ(behind->panels(), 3);
  EXPECT_EQ(behind->first_row, 0);
  const std::optional<TwoPasses> front = made(100);
  ASSERT_TRUE(front);
  EXPECT_EQ(front->panel_rows, 2048);
  EXPECT_EQ(front->panels(), 2);
  EXPECT_EQ(front->first_row, 2048);
  EXPECT_EQ(front->first_element(), 2048 * 1201);
  EXPECT_LE(front->space_bytes(), 100 + front->first_row * row_bytes);
}

TEST_F(TwoPassesFile, TheSecondPassGivesTheResult) {
  struct Case {
    int64_t rows, columns;
    uint64_t position, panel_bytes;
  };
  for (const Case& c : {Case{700, 601, 2 * kMebi, 2 * kMebi}, Case{5003, 603, 6 * kMebi, kMebi},
                        Case{5003, 603, 1000, kMebi}, Case{5003, 603, 3 * kMebi, kMebi}}) {
    const RecipeRef matrix = transposed_ramp(c.rows, c.columns);
    const uint64_t bytes = matrix->elements() * 4;
    stream::Budget budget(32 * kMebi);
    const std::optional<TwoPasses> passes = two_passes_of(matrix, c.position, 0, c.panel_bytes, 300'000, 400'000);
    ASSERT_TRUE(passes);
    stream::OutFile out(folder_ / "out", c.position + bytes);
    std::vector<std::byte> buffer(std::max(passes->band_bytes(), passes->chunk_buffer_bytes())), whole(bytes);
    stream::BoxReader reader(matrix, budget);
    uint64_t written = 0;
    for (uint64_t panel = passes->panels(); panel-- > 0;) {
      for (uint64_t i = 0; i < passes->bands(); ++i) write_band(*passes, {panel, i}, reader, buffer, out);
      for (uint64_t i = passes->chunks(panel); i-- > 0;) written += write_chunk(*passes, {panel, i}, buffer, out);
    }
    const uint64_t rest = passes->first_element() * 4;
    EXPECT_EQ(written, bytes - rest);
    out.commit();
    stream::RecipeReader(matrix, budget).read(0, matrix->elements(), whole.data());
    const std::string text = text_of(folder_ / "out");
    EXPECT_TRUE(text.substr(c.position + rest) ==
                std::string_view(reinterpret_cast<const char*>(whole.data()), bytes).substr(rest));
  }
}

// Matrices of odd sizes, with gaps behind them, small constants, and one that is copied.
Made matrices(const RecipeRef& behind = transposed_ramp(703, 611)) {
  Made m;
  const auto add = [&](const RecipeRef& recipe) {
    m.op(Kind::kAbs, {m.graph->add_constant(recipe)}, core::NoOptions{}, recipe->dtype, recipe->dims);
  };
  add(stored(ramp(7, 1, 1), {7}));
  add(transposed_ramp(701, 607));
  add(stored(ramp(3, 2, 1), {3}));
  add(stored(ramp(100'003, 2, 1), {100'003}));
  add(stream::recipe::cast(transposed_ramp(1403, 609), DType::kFloat16));
  add(stream::recipe::permute(stream::recipe::cast(stored(ramp(1501 * 1003, 3, 1e-4F), {1501, 1003}), DType::kFloat16),
                              {1, 0}));
  add(stored(ramp(5, 2, 1), {5}));
  add(transposed_ramp(699, 605));
  add(behind);
  m.output(m.op(Kind::kAbs, {m.input(DType::kFloat32, {3}, "x")}, core::NoOptions{}, DType::kFloat32, {3}), "y");
  return m;
}

TEST_F(TwoPassesFile, ModelsAreTheSameForEveryBudgetAndNumberOfThreads) {
  const Made made = matrices();
  const auto write = [&](bool external, int threads, uint64_t bytes) {
    WriteOptions options;
    options.external_buffers = external;
    options.threads = threads;
    if (threads == 3) options.on_verified = [](const VerifiedTensor& tensor) { EXPECT_FALSE(tensor.difference); };
    stream::Budget budget(bytes);
    write_tflite(*made.model, folder_ / "m.tflite", budget, options);
    EXPECT_LE(budget.high_water(), bytes);
    return text_of(folder_ / "m.tflite");
  };
  for (bool external : {false, true}) {
    const std::string expected = write(external, 1, 256 << 10);  // chunks too small for two passes
    for (uint64_t bytes : {kMebi, 8 * kMebi, 32 * kMebi})
      for (int threads : {1, 3}) {
        EXPECT_TRUE(write(external, threads, bytes) == expected) << bytes << " bytes, " << threads << " threads";
      }
  }
}

// The first matrix has too little space in front for one panel: some of its rows are put together in one pass.
TEST_F(TwoPassesFile, TheFirstMatrixIsItsOwnSpace) {
  Made made;
  for (const RecipeRef& recipe :
       {stored(ramp(7, 1, 1), {7}), transposed_ramp(5003, 601), stored(ramp(3, 2, 1), {3}), transposed_ramp(703, 611)})
    made.op(Kind::kAbs, {made.graph->add_constant(recipe)}, core::NoOptions{}, recipe->dtype, recipe->dims);
  made.output(made.op(Kind::kAbs, {made.input(DType::kFloat32, {3}, "x")}, core::NoOptions{}, DType::kFloat32, {3}),
              "y");
  const std::string expected = written(made, 1, 256 << 10);
  for (int threads : {1, 3}) EXPECT_TRUE(written(made, threads, 32 * kMebi) == expected) << threads << " threads";
}

// The bands of the later ones reach up to the first element, so over the length word. It is written when they are read;
// matrices of a single chunk and of several, which several threads write.
TEST_F(TwoPassesFile, BandsMayReachOverTheLengthWord) {
  Made made;
  for (const RecipeRef& recipe : {transposed_ramp(320, 1024), transposed_ramp(320, 1024), transposed_ramp(512, 2048),
                                  transposed_ramp(512, 2048), transposed_ramp(512, 2048)})
    made.op(Kind::kAbs, {made.graph->add_constant(recipe)}, core::NoOptions{}, recipe->dtype, recipe->dims);
  made.output(made.op(Kind::kAbs, {made.input(DType::kFloat32, {3}, "x")}, core::NoOptions{}, DType::kFloat32, {3}),
              "y");
  const std::string expected = written(made, 1, 256 << 10);
  for (int threads : {1, 2, 3})
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(written(made, threads, 32 * kMebi) == expected) << threads << " threads";
}

// Fails at its `last` read: in a band, while other threads wait for the end of the pass or have one of their own.
struct FailingAtLast : stream::Source {
  FailingAtLast(uint64_t bytes, int last) : bytes_(bytes), left_(last) {}
  uint64_t size() const override { return bytes_; }
  const std::string& name() const override { return name_; }
  void read_at(uint64_t, std::span<std::byte> out) const override {
    if (--left_ <= 0) throw stream::Error(stream::Code::kIo, "the disk is gone");
    std::fill(out.begin(), out.end(), std::byte{});
  }
  uint64_t bytes_;
  mutable std::atomic<int> left_;
  std::string name_ = "failing";
};

TEST_F(TwoPassesFile, AnErrorInOneThreadEndsAll) {
  constexpr int64_t kRows = 703, kColumns = 611;
  for (int last : {1, 2, 3, 5, 7})
    for (int threads : {1, 2, 5}) {
      auto source = std::make_shared<FailingAtLast>(kRows * kColumns * 4, last);
      const RecipeRef stored_matrix =
          stream::recipe::stored(source, {{.offset = 0, .bytes = kRows * kColumns * 4, .elements = kRows * kColumns}},
                                 DType::kFloat32, {kColumns, kRows});
      const Made made = matrices(stream::recipe::permute(stored_matrix, {1, 0}));
      WriteOptions options;
      options.threads = threads;
      stream::Budget budget(32 * kMebi);
      try {
        write_tflite(*made.model, folder_ / "m.tflite", budget, options);
        FAIL();
      } catch (const stream::Error& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("the disk is gone"));
        EXPECT_THAT(error.what(), testing::HasSubstr("tensor '"));
      }
      EXPECT_TRUE(fs::is_empty(folder_));
    }
}

}  // namespace
}  // namespace lowtide::emit
