// SPDX-License-Identifier: Apache-2.0
#include "emit/planned_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "emit/make_plan.h"
#include "emit/tflite_writer.h"
#include "emit/verify.h"
#include "stream/error.h"
#include "stream/file/seekable_source.h"
#include "tests/emit/models.h"

namespace lowtide::emit {
namespace {

namespace fs = std::filesystem;

std::vector<std::byte> contents_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// Constants of some MiB, of which one is permuted and one of 4 bits.
Made network() {
  Made made = small_network(9000);
  auto nibbles = stream::recipe::cast(stream::recipe::iota(0, 1, core::DType::kInt32, 15), core::DType::kInt4);
  core::ValueId packed = made.graph->add_constant(nibbles, "nibbles");
  core::ValueId wide =
      made.op(core::Kind::kCast, {packed}, core::IndexOptions{core::DType::kFloat32}, core::DType::kFloat32, {15});
  made.output(wide, "wide");
  return made;
}

class PlannedFileTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / "planned_file" / (GetParam() ? "external" : "inline") /
              testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    options_.external_buffers = GetParam();
    plan_ = plan_tflite(*made_.model, options_);
  }
  std::vector<std::byte> written(const char* name, stream::Budget& budget) {
    write_tflite(plan_, folder_ / name, budget, options_);
    return contents_of(folder_ / name);
  }

  Made made_ = network();
  Plan plan_;
  WriteOptions options_;
  fs::path folder_;
  stream::Budget budget_{16 << 20};
};

TEST_P(PlannedFileTest, ReadsBackWhatWasWritten) {
  const std::vector<std::byte> file = written("m.tflite", budget_);
  PlannedFile planned(plan_, budget_, "planned");
  ASSERT_EQ(planned.size(), file.size());
  std::vector<std::byte> whole(file.size());
  planned.read_at(0, whole);
  EXPECT_EQ(whole, file);
  std::minstd_rand random(7);
  for (int i = 0; i < 300; ++i) {
    const uint64_t begin = random() % file.size(), bytes = random() % std::min<uint64_t>(file.size() - begin + 1, 70);
    std::vector<std::byte> part(bytes);
    planned.read_at(begin, part);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), file.begin() + static_cast<int64_t>(begin)))
        << bytes << " bytes at " << begin;
  }
  EXPECT_THROW(planned.read_at(file.size() - 1, std::span(whole).first(2)), stream::Error);
}

TEST_P(PlannedFileTest, CompressedBytesDoNotDependOnThreadsOrBudget) {
  const std::vector<std::byte> file = written("m.tflite", budget_);
  options_.zstd_level = 3;
  const std::vector<std::byte> packed = written("one.zst", budget_);
  stream::Budget larger(96 << 20);
  options_.threads = 4;
  EXPECT_EQ(written("four.zst", larger), packed);
  EXPECT_LT(packed.size(), file.size());

  std::vector<std::byte> unpacked(file.size());  // any decoder reads it, table and all
  EXPECT_EQ(ZSTD_decompress(unpacked.data(), unpacked.size(), packed.data(), packed.size()), file.size());
  EXPECT_EQ(unpacked, file);

  auto seekable = stream::open_seekable(stream::open_file(folder_ / "one.zst"), budget_);
  ASSERT_TRUE(seekable);
  ASSERT_EQ(seekable->size(), file.size());
  std::minstd_rand random(7);
  for (int i = 0; i < 60; ++i) {
    const uint64_t begin = random() % file.size(), bytes = random() % (file.size() - begin + 1);
    std::vector<std::byte> part(bytes);
    seekable->read_at(begin, part);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), file.begin() + static_cast<int64_t>(begin)));
  }
}

TEST_P(PlannedFileTest, ABudgetTooSmallToCompressIsRefused) {
  stream::Budget small(1 << 20);
  options_.zstd_level = 3;
  try {
    written("m.zst", small);
    FAIL() << "it was compressed";
  } catch (const stream::Error& error) {
    EXPECT_EQ(error.code(), stream::Code::kBudget);
  }
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_P(PlannedFileTest, VerificationReportsEachConstantAndItsFirstDifference) {
  std::vector<VerifiedTensor> told;
  options_.on_verified = [&](const VerifiedTensor& tensor) { told.push_back(tensor); };
  std::vector<std::byte> file = written("m.tflite", budget_);
  ASSERT_EQ(told.size(), plan_.payloads.size());
  for (size_t i = 0; i < told.size(); ++i) {
    EXPECT_EQ(told[i].tensor, plan_.payloads[i].tensor);
    EXPECT_EQ(told[i].bytes, plan_.payloads[i].bytes);
    EXPECT_EQ(told[i].digest.size(), 32u);
    EXPECT_FALSE(told[i].difference);
  }
  const std::vector<VerifiedTensor> sound = std::exchange(told, {});
  const Payload& large = *std::max_element(plan_.payloads.begin(), plan_.payloads.end(),
                                           [](const Payload& a, const Payload& b) { return a.bytes < b.bytes; });
  file[large.position + large.bytes - 5] ^= std::byte{1};
  verify_payloads(plan_, stream::memory_source(file, "damaged"), budget_, nullptr, options_.on_verified);
  for (size_t i = 0; i < told.size(); ++i) {
    const bool damaged = told[i].tensor == large.tensor;
    EXPECT_EQ(told[i].difference, damaged ? std::optional(large.bytes - 5) : std::nullopt);
    EXPECT_EQ(told[i].digest == sound[i].digest, !damaged);
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, PlannedFileTest, testing::Bool(), [](const testing::TestParamInfo<bool>& form) {
  return form.param ? "BehindTheFlatbuffer" : "Inline";
});

}  // namespace
}  // namespace lowtide::emit
