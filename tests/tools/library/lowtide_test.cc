// SPDX-License-Identifier: Apache-2.0
// The public interface: options, progress, exceptions.
#include "tools/library/lowtide/lowtide.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <stdexcept>
#include <utility>

#include "bench/models.h"
#include "tests/stream/scratch.h"

namespace lowtide {
namespace {

using stream::ScratchFolder;
using testing::Contains;
using testing::HasSubstr;

class Library : public testing::Test {
 protected:
  Library() {
    bench::ModelSpec spec;
    spec.kind = "conv-stack";
    spec.size_bytes = 1 << 20;
    bench::make_model(spec, model);
  }
  ErrorKind kind_of_error(const ConvertOptions& options) {
    try {
      convert(model, output, options);
    } catch (const Error& error) {
      text = error.what();
      return error.kind();
    }
    ADD_FAILURE() << "it converts";
    return ErrorKind::kInternal;
  }

  ScratchFolder folder;
  const std::filesystem::path model = folder / "m.onnx", output = folder / "m.tflite";
  std::string text;
};

TEST_F(Library, ConvertsAndTellsWhat) {
  std::vector<std::string> phases;
  uint64_t done = 0;
  ConvertOptions options;
  options.progress = [&](const Progress& progress) {
    phases.emplace_back(progress.phase);
    done = progress.done;
    EXPECT_LE(progress.done, progress.total);
  };
  const Conversion conversion = convert(model, output, options);
  EXPECT_EQ(conversion.output_bytes, std::filesystem::file_size(output));
  EXPECT_GE(conversion.input_bytes, 1u << 20);
  EXPECT_GT(conversion.operators, 0u);
  EXPECT_GT(conversion.nodes, 0u);
  EXPECT_THAT(phases, Contains("writing"));
  EXPECT_THAT(inspect(output), HasSubstr("CONV_2D"));
  EXPECT_THAT(inspect(model), HasSubstr("\"ONNX\""));
}

TEST_F(Library, OptionsThatDoNotFitAreErrors) {
  ConvertOptions options;
  options.threads = 0;
  EXPECT_EQ(kind_of_error(options), ErrorKind::kUsage);
  options = {};
  options.shapes["no_such_input"] = {1, 2};
  EXPECT_EQ(kind_of_error(options), ErrorKind::kUsage);
  EXPECT_THAT(text, HasSubstr("no_such_input"));
  options = {};
  options.layouts["input"] = "channels last";
  EXPECT_EQ(kind_of_error(options), ErrorKind::kUsage);
  options = {};
  options.weights_include = {"conv*"};
  EXPECT_EQ(kind_of_error(options), ErrorKind::kUsage);
  options = {};
  options.budget = 1;
  EXPECT_EQ(kind_of_error(options), ErrorKind::kBudget);
  EXPECT_EQ(folder.entries(), 1u);
}

TEST_F(Library, TheModelIsNotReplaced) {
  EXPECT_THROW(convert(model, model), Error);
  EXPECT_THROW(convert(folder / "absent.onnx", output), Error);
  EXPECT_THROW(inspect(folder / "absent.onnx"), Error);
  EXPECT_EQ(folder.entries(), 1u);
}

TEST_F(Library, AnExceptionOfTheUserEndsTheConversion) {
  ConvertOptions options;
  options.progress = [](const Progress& progress) {
    if (progress.phase == "writing") throw std::runtime_error("enough");
  };
  EXPECT_THROW(convert(model, output, options), std::runtime_error);
  EXPECT_EQ(folder.entries(), 1u);
}

TEST_F(Library, OutputsThatSayWhatTheyAreNot) {
  for (const char* name : {"out.onnx", "out.tflite.gz"}) {
    try {
      convert(model, folder / name);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      EXPECT_THAT(error.what(), HasSubstr("name it"));
    }
  }
  ConvertOptions options;
  options.custom_ops = "allow";
  options.custom_ops_map = folder / "map.tflite";
  std::ofstream(options.custom_ops_map) << "{\"operators\": []}";
  try {
    convert(model, options.custom_ops_map, options);
    ADD_FAILURE() << "the map is replaced";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("custom_ops_map"));
  }
  EXPECT_EQ(folder.entries(), 2u);
}

TEST(LibraryError, IsWholeAfterItWasMoved) {
  Error error(ErrorKind::kIo, "what it says", {});
  const Error other = std::move(error);
  EXPECT_STREQ(other.what(), "what it says");
  EXPECT_STREQ(error.what(), "what it says");  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(error.kind(), ErrorKind::kIo);
  EXPECT_TRUE(error.nodes().empty());
}

TEST_F(Library, WeightsInFewerBits) {
  ConvertOptions options;
  options.weights = Weights::kInt8;
  const Conversion small = convert(model, output, options);
  EXPECT_LT(small.output_bytes, small.input_bytes / 2);
}

}  // namespace
}  // namespace lowtide
