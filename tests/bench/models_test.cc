// SPDX-License-Identifier: Apache-2.0
#include "bench/models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "stream/error.h"

namespace lowtide::bench {
namespace {

/// An empty folder for each test.
class Models : public testing::Test {
 protected:
  Models() { std::filesystem::create_directories(folder_); }
  ~Models() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() /
      ("lowtide_models_" + std::to_string(getpid()) + testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(Models, ReturnsTheSizesOfTheFiles) {
  const std::filesystem::path out = folder_ / "m.onnx";
  const MadeModel inside = make_model({.kind = "unet", .size_bytes = 1 << 20}, out);
  EXPECT_EQ(inside.model_bytes, std::filesystem::file_size(out));
  EXPECT_EQ(inside.data_bytes, 0U);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "m.onnx.data"));
  const MadeModel outside = make_model({.kind = "unet", .size_bytes = 1 << 20, .external = true}, out);
  EXPECT_EQ(outside.model_bytes, std::filesystem::file_size(out));
  EXPECT_EQ(outside.data_bytes, std::filesystem::file_size(folder_ / "m.onnx.data"));
  EXPECT_EQ(inside.weight_bytes, outside.weight_bytes);
  EXPECT_LT(outside.model_bytes, inside.model_bytes);
}

TEST_F(Models, SparseWeightsStartWithTheSameValues) {
  const std::filesystem::path out = folder_ / "m.onnx", data = folder_ / "m.onnx.data";
  const auto read = [&] {
    std::ifstream in(data, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const MadeModel full = make_model({.kind = "conv-stack", .size_bytes = 9 << 20, .external = true}, out);
  const std::string dense = read();
  const MadeModel made = make_model({.kind = "conv-stack", .size_bytes = 9 << 20, .sparse = true}, out);
  const std::string sparse = read();
  EXPECT_EQ(made.data_bytes, full.data_bytes);
  ASSERT_EQ(sparse.size(), dense.size());
  EXPECT_EQ(sparse.substr(0, 4096), dense.substr(0, 4096));
  EXPECT_EQ(sparse.substr(4096, 8192), std::string(8192, '\0'));
}

TEST_F(Models, WeightsCanBeInManyFiles) {
  const std::filesystem::path out = folder_ / "m.onnx";
  const MadeModel made = make_model({.kind = "many-nodes", .nodes = 40, .files = 3}, out);
  uint64_t bytes = 0;
  for (const char* name : {"m.onnx.data.0", "m.onnx.data.1", "m.onnx.data.2"})
    bytes += std::filesystem::file_size(folder_ / name);
  EXPECT_EQ(made.data_bytes, bytes);
  EXPECT_EQ(made.data_bytes, 10U * 16 * 16 * 4);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "m.onnx.data.3"));
}

TEST_F(Models, ProgressEndsWithAllWeights) {
  uint64_t last = 0;
  uint64_t all = 0;
  const MadeModel made =
      make_model({.kind = "conv-stack", .size_bytes = 3 << 20}, folder_ / "m.onnx", [&](uint64_t done, uint64_t total) {
        EXPECT_GT(done, last);
        last = done;
        all = total;
      });
  EXPECT_EQ(last, all);
  EXPECT_EQ(all, made.weight_bytes);
}

TEST_F(Models, AnInterruptedRunLeavesNoFile) {
  for (const bool external : {false, true}) {
    EXPECT_THROW(make_model({.kind = "conv-stack", .size_bytes = 9 << 20, .external = external}, folder_ / "m.onnx",
                            [](uint64_t done, uint64_t) {
                              if (done > 4 << 20) throw std::runtime_error("stopped");
                            }),
                 std::runtime_error);
    EXPECT_TRUE(std::filesystem::is_empty(folder_));
  }
}

TEST_F(Models, ImpossibleRequestsAreErrors) {
  const auto refusal = [this](const ModelSpec& spec) {
    try {
      make_model(spec, folder_ / "m.onnx");
    } catch (const stream::Error& error) {
      EXPECT_EQ(error.code(), stream::Code::kUsage);
      EXPECT_TRUE(std::filesystem::is_empty(folder_));
      return error.text();
    }
    return std::string("made");
  };
  using testing::HasSubstr;
  EXPECT_THAT(refusal({.kind = "vgg"}),
              HasSubstr("there are duc, deeplab, unet, conv-stack, one-tensor, matmul-stack, many-nodes"));
  EXPECT_THAT(refusal({.kind = "duc", .size_bytes = 1000}), HasSubstr("the nearest has"));
  EXPECT_THAT(refusal({.kind = "duc", .size_bytes = UINT64_MAX}), HasSubstr("more than"));
  EXPECT_THAT(refusal({.kind = "duc", .input_size = 0}), HasSubstr("input size"));
  EXPECT_THAT(refusal({.kind = "unet", .input_size = 40}), HasSubstr("multiple of 16"));
  EXPECT_THAT(refusal({.kind = "duc", .opset = 12}), HasSubstr("opset"));
  EXPECT_THAT(refusal({.kind = "duc", .nodes = 10}), HasSubstr("only many-nodes"));
  EXPECT_THAT(refusal({.kind = "many-nodes", .size_bytes = 1 << 20}), HasSubstr("--nodes"));
  EXPECT_THAT(refusal({.kind = "duc", .files = 0}), HasSubstr("files"));
  EXPECT_THAT(refusal({.kind = "duc", .opset = 24}), HasSubstr("opset"));
  EXPECT_THAT(refusal({.kind = "duc", .plain_kernels = true}), HasSubstr("plain"));
  EXPECT_THAT(refusal({.kind = "matmul-stack", .plain_kernels = true}), HasSubstr("plain"));
  EXPECT_THAT(refusal({.kind = "many-nodes", .nodes = 0}), HasSubstr("0 nodes are not between 1 and"));
}

}  // namespace
}  // namespace lowtide::bench
