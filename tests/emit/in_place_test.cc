// SPDX-License-Identifier: Apache-2.0
#include "emit/in_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "emit/tflite_writer.h"
#include "schemas/tflite_generated.h"
#include "stream/error.h"
#include "stream/file/file.h"
#include "stream/recipe/in_place.h"
#include "tests/emit/models.h"

namespace lowtide::emit {
namespace {

namespace fs = std::filesystem;
using core::DType;
using core::Kind;
using testing::ElementsAre;

// Networks of additions x + c, with constants c in files of zeros.
class InPlaceFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / "in_place" / testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "sub");
    x_ = made_.input(DType::kFloat32, {1}, "x");
  }
  std::shared_ptr<stream::Source> file(const std::string& name, uint64_t bytes) {
    std::ofstream(folder_ / name).close();
    fs::resize_file(folder_ / name, bytes);
    return stream::open_file(folder_ / name);
  }
  void use(std::shared_ptr<stream::Source> source, uint64_t offset, uint64_t bytes, Kind kind = Kind::kAdd) {
    const auto elements = static_cast<int64_t>(bytes / 4);
    auto recipe = stream::recipe::stored(std::move(source), {{.offset = offset, .bytes = bytes, .elements = bytes / 4}},
                                         DType::kFloat32, {elements});
    made_.op(kind, {x_, made_.graph->add_constant(std::move(recipe))}, core::BinaryOptions{}, DType::kFloat32,
             {elements});
  }
  Plan chosen(const fs::path& folder) {
    Plan plan;
    choose_in_place(*made_.model, folder, plan);
    return plan;
  }

  fs::path folder_;
  Made made_;
  core::ValueId x_ = 0;
};

TEST_F(InPlaceFiles, AlignedConstantsOfAtLeastAPageStayInPlace) {
  auto a = file("a.bin", 1 << 20), b = file("sub/b.bin", 1 << 20);
  use(b, 64, 8192);
  use(a, 128, 4096);
  use(a, 65536, 4092);  // small
  use(a, 131072 + 16, 10000);
  use(stream::memory_source(std::vector<std::byte>(8192), "memory"), 0, 8192);
  Plan plan = chosen(folder_);
  ASSERT_EQ(plan.in_place.size(), 2u);
  ASSERT_EQ(plan.files.size(), 2u);
  EXPECT_EQ(plan.files[0].name, "sub/b.bin");
  EXPECT_EQ(plan.files[0].bytes, 8192u);
  EXPECT_EQ(plan.files[1].name, "a.bin");
  EXPECT_EQ(plan.in_place[1].file, 1u);
  EXPECT_EQ(plan.in_place[1].offset, 128u);
  EXPECT_EQ(plan.in_place[1].length, 4096u);
  EXPECT_EQ(plan.unaligned_bytes, 10000u);
}

// Kernels that read past the end of a tensor need readable bytes there.
TEST_F(InPlaceFiles, KernelsThatReadPastTheEndNeedReadableBytesThere) {
  auto a = file("a.bin", 12288);
  use(a, 0, 8192);     // ends with a page: the next one is mapped too
  use(a, 4096, 8192);  // ends with the file
  use(a, 4096, 8192, Kind::kFullyConnected);
  use(a, 64, 8128 - 16);
  use(a, 64, 8128 - 12);
  Plan plan = chosen(folder_);
  std::vector<std::pair<uint64_t, uint64_t>> got;
  for (const InPlace& constant : plan.in_place) got.emplace_back(constant.recipe->bytes(), constant.length);
  EXPECT_THAT(got,
              ElementsAre(std::pair(8192, 8208), std::pair(8192, 8192), std::pair(8112, 8112), std::pair(8116, 8132)));
}

TEST_F(InPlaceFiles, ExternalNamesAreRelativeToTheModelsFolder) {
  use(file("sub/b.bin", 8192), 0, 4096);
  EXPECT_EQ(chosen(folder_ / "sub").files[0].name, "b.bin");
  fs::create_directory_symlink(folder_, folder_ / "sub/link");
  EXPECT_EQ(chosen(folder_ / "sub/link").files[0].name, "sub/b.bin");
  fs::create_directory(folder_ / "other");
  try {
    chosen(folder_ / "other");
    FAIL();
  } catch (const stream::Error& error) {
    EXPECT_EQ(error.code(), stream::Code::kUsage);
    EXPECT_THAT(error.text(),
                testing::HasSubstr("choose an output path in " + fs::canonical(folder_ / "sub").string()));
  }
}

TEST_F(InPlaceFiles, TensorsReferToTheirExternalBuffers) {
  auto a = file("a.bin", 1 << 20);
  use(a, 4096, 8000);
  use(a, 16384, 40);
  made_.output(made_.graph->ops[0].outputs[0], "y");
  made_.output(made_.graph->ops[1].outputs[0], "z");
  stream::Budget budget(8 << 20);
  WriteOptions options;
  options.in_place = folder_;
  write_tflite(*made_.model, folder_ / "m.tflite", budget, options);
  std::ifstream in(folder_ / "m.tflite", std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  ASSERT_TRUE(tflite::VerifyModelBuffer(verifier));
  const tflite::Model* model = tflite::GetModel(bytes.data());
  ASSERT_EQ(model->external_buffers()->size(), 1u);
  EXPECT_EQ(model->external_buffer_groups()->Get(0)->name()->str(), "a.bin");
  const auto* buffer = model->external_buffers()->Get(0);
  EXPECT_EQ(buffer->id(), 0x80000000u);
  EXPECT_EQ(buffer->offset(), 4096u);
  EXPECT_EQ(buffer->length(), 8000u);
  const auto* tensors = model->subgraphs()->Get(0)->tensors();
  std::vector<std::pair<uint32_t, bool>> constants;
  for (const auto* tensor : *tensors) constants.emplace_back(tensor->external_buffer(), tensor->buffer() != 0);
  EXPECT_THAT(constants, ElementsAre(std::pair(0u, false), std::pair(0x80000000u, false), std::pair(0u, false),
                                     std::pair(0u, true), std::pair(0u, false)));
}

}  // namespace
}  // namespace lowtide::emit
