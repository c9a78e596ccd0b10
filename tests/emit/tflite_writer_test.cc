// SPDX-License-Identifier: Apache-2.0
#include "emit/tflite_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "emit/make_plan.h"
#include "emit/verify.h"
#include "schemas/tflite_generated.h"
#include "stream/error.h"
#include "stream/recipe/recipe_reader.h"
#include "stream/tflite/reader.h"
#include "tests/emit/models.h"

namespace lowtide::emit {
namespace {

namespace fs = std::filesystem;
using core::DType;
using core::Kind;
using testing::HasSubstr;

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class TfliteWriter : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::path(testing::TempDir()) / "tflite_writer" / testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  fs::path write(const Made& made, const WriteOptions& options = {}, uint64_t budget_bytes = 8 << 20,
                 const char* name = "m.tflite") {
    stream::Budget budget(budget_bytes);
    result_ = write_tflite(*made.model, folder_ / name, budget, options);
    EXPECT_EQ(fs::file_size(folder_ / name), result_.file_bytes);
    EXPECT_LE(budget.high_water(), budget_bytes);
    return folder_ / name;
  }
  std::vector<double> constant(const tfl::Model& model, const std::string& name) {
    for (const tfl::Tensor& tensor : model.subgraphs[0].tensors)
      if (tensor.name == name) {
        EXPECT_TRUE(tensor.data);
        return stream::evaluate_doubles(tensor.data, budget_);
      }
    ADD_FAILURE() << "no tensor " << name;
    return {};
  }
  stream::Budget budget_{32 << 20};
  fs::path folder_;
  WriteResult result_;
};

TEST_F(TfliteWriter, VerifiesAndReadsBack) {
  fs::path path = write(small_network());
  std::string bytes = bytes_of(path);
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  EXPECT_TRUE(tflite::VerifyModelBuffer(verifier));

  tfl::Model model = stream::read_tflite(path, budget_);
  const tfl::Subgraph& graph = model.subgraphs.at(0);
  EXPECT_FALSE(model.external_buffers);
  ASSERT_EQ(graph.operators.size(), 3u);
  EXPECT_EQ(graph.operators[0].name, "CONV_2D");
  EXPECT_EQ(graph.operators[1].name, "ADD");
  EXPECT_EQ(graph.tensors[static_cast<size_t>(graph.inputs.at(0))].name, "x");
  EXPECT_EQ(graph.tensors[static_cast<size_t>(graph.outputs.at(0))].name, "y");
  EXPECT_EQ(model.signatures.at(0).key, "serving_default");
  EXPECT_EQ(model.signatures.at(0).outputs.at(1).first, "shape of x");
  EXPECT_EQ(model.metadata.at("min_runtime_version"), "1.10.0");  // SHAPE is the youngest
  EXPECT_EQ(constant(model, "b"), (std::vector<double>{0.5, 1.5, 2.5, 3.5}));
  auto expected = ramp(80, 0, 0.01f);
  EXPECT_EQ(constant(model, "more"), std::vector<double>(expected.begin(), expected.end()));
  // OHWI element [1][1][2][0] is OIHW element [1][0][1][2]: 18 + 5.
  EXPECT_FLOAT_EQ(static_cast<float>(constant(model, "w")[static_cast<size_t>(18 + 9 + 6)]),
                  ramp(72, -1, 0.03f)[18 + 5]);
}

TEST_F(TfliteWriter, PayloadsAreAligned) {
  std::string bytes = bytes_of(write(small_network()));
  const auto* model = tflite::GetModel(bytes.data());
  EXPECT_EQ(model->buffers()->Get(0)->data(), nullptr);
  for (const auto* buffer : *model->buffers())
    if (buffer->data()) {
      EXPECT_EQ((reinterpret_cast<const char*>(buffer->data()->Data()) - bytes.data()) % 16, 0);
    }
  EXPECT_EQ(bytes.substr(bytes.size() - 16), std::string(16, '\0'));
}

TEST_F(TfliteWriter, ExternalBuffers) {
  WriteOptions options;
  options.external_buffers = true;
  fs::path path = write(small_network(), options);
  EXPECT_TRUE(result_.external);
  std::string bytes = bytes_of(path);
  // The flatbuffer alone must verify: the payloads after it are not a part of it.
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), result_.header_bytes);
  EXPECT_TRUE(tflite::VerifyModelBuffer(verifier));
  const auto* buffers = tflite::GetModel(bytes.data())->buffers();
  EXPECT_EQ(buffers->Get(0)->size(), 0u);
  for (uint32_t i = 1; i <= 3; ++i) {
    EXPECT_EQ(buffers->Get(i)->data(), nullptr);
    EXPECT_EQ(buffers->Get(i)->offset() % 16, 0u);
    EXPECT_LE(buffers->Get(i)->offset() + buffers->Get(i)->size() + 16, bytes.size());
  }
  tfl::Model model = stream::read_tflite(path, budget_);
  EXPECT_TRUE(model.external_buffers);
  EXPECT_EQ(model.metadata.at("buffer_location"), "outside flatbuffers");
  EXPECT_EQ(model.metadata.at("min_runtime_version"), "2.14.0");
  EXPECT_EQ(constant(model, "b"), (std::vector<double>{0.5, 1.5, 2.5, 3.5}));
}

TEST_F(TfliteWriter, LargeFilesUseExternalBuffers) {
  WriteOptions options;
  write(small_network(), options);
  options.inline_limit = result_.file_bytes;
  write(small_network(), options);
  EXPECT_FALSE(result_.external);
  --options.inline_limit;
  write(small_network(), options);
  EXPECT_TRUE(result_.external);
}

TEST_F(TfliteWriter, BytesDoNotDependOnBudgetOrThreads) {
  for (bool external : {false, true}) {
    std::string first;
    for (uint64_t budget : {uint64_t{1} << 20, uint64_t{3} << 20, uint64_t{64} << 20})
      for (int threads : {1, 2, 5}) {
        WriteOptions options;
        options.external_buffers = external;
        options.threads = threads;
        std::string bytes = bytes_of(write(small_network(9973), options, budget));
        if (first.empty()) first = bytes;
        EXPECT_TRUE(bytes == first) << "budget " << budget << ", threads " << threads;
      }
  }
}

// Tall matrices, which are written in blocks when the budget is small, between tensors that are not.
Made tall_network() {
  Made m;
  for (int64_t rows : {20011, 17, 9973}) {
    auto turned = stream::recipe::permute(stored(ramp(static_cast<size_t>(rows * 61), 1, 1e-3F), {rows, 61}), {1, 0});
    m.op(Kind::kAbs, {m.graph->add_constant(turned)}, core::NoOptions{}, DType::kFloat32, {61, rows});
  }
  m.output(m.op(Kind::kAbs, {m.input(DType::kFloat32, {3}, "x")}, core::NoOptions{}, DType::kFloat32, {3}), "y");
  return m;
}

TEST_F(TfliteWriter, WritingInBlocksGivesTheSameBytes) {
  const Made made = tall_network();
  for (bool external : {false, true}) {
    WriteOptions whole;
    whole.external_buffers = external;
    whole.on_verified = [](const VerifiedTensor& tensor) { EXPECT_FALSE(tensor.difference); };
    const std::string expected = bytes_of(write(made, whole, 256 << 20));
    for (uint64_t budget : {uint64_t{512} << 10, uint64_t{1} << 20, uint64_t{16} << 20})
      for (int threads : {1, 3}) {
        WriteOptions options = whole;
        options.threads = threads;
        EXPECT_TRUE(bytes_of(write(made, options, budget)) == expected) << budget << ", threads " << threads;
      }
  }
}

// A constant of many steps, whose tiles and kept results need more than a usual budget leaves.
Made deep_network() {
  Made m;
  stream::RecipeRef recipe = stored(ramp(300 * 211, 1, 1e-3F), {300, 211});
  for (int i = 0; i < 60; ++i) {
    const bool even = i % 2 == 0;
    stream::RecipeRef shift = stream::recipe::unary(
        stream::Unary::kSqrt, stored(ramp(even ? 211 : 300, static_cast<float>(i), 1), {even ? 211 : 300}));
    recipe = stream::recipe::permute(stream::recipe::binary(stream::Binary::kAdd, recipe, shift), {1, 0});
  }
  m.op(Kind::kAbs, {m.graph->add_constant(recipe, "deep")}, core::NoOptions{}, DType::kFloat32, {300, 211});
  m.output(m.op(Kind::kAbs, {m.input(DType::kFloat32, {3}, "x")}, core::NoOptions{}, DType::kFloat32, {3}), "y");
  return m;
}

TEST_F(TfliteWriter, TheLeastBudgetIsEnough) {
  for (const Made& made : {small_network(9973), deep_network()})
    for (bool compressed : {false, true})
      for (bool verified : {false, true}) {
        WriteOptions options;
        options.threads = 3;
        if (compressed) options.zstd_level = 3;
        if (verified) options.on_verified = [](const VerifiedTensor&) {};
        const Plan plan = plan_tflite(*made.model, options);
        stream::Budget large(64 << 20), least(least_budget(plan, options));
        write_tflite(plan, folder_ / "large", large, options);
        write_tflite(plan, folder_ / "least", least, options);
        EXPECT_TRUE(bytes_of(folder_ / "large") == bytes_of(folder_ / "least")) << compressed << verified;
        EXPECT_LT(least.limit(), uint64_t{8} << 20);
      }
}

TEST_F(TfliteWriter, PackedAndNarrowConstants) {
  Made m;
  core::ValueId x = m.input(DType::kFloat32, {3}, "x");
  core::ValueId y = m.op(Kind::kAbs, {x}, core::NoOptions{}, DType::kFloat32, {3});
  m.output(y, "y");
  // Constants that an op of the file would use; the writer does not check kernels.
  std::vector<int64_t> nibbles = {1, -8, 7, -1, 3};
  std::vector<core::ValueId> constants = {
      m.graph->add_constant(stream::recipe::ints(nibbles, DType::kInt4, {5}), "i4"),
      m.graph->add_constant(stream::recipe::ints(std::vector<int64_t>{1, 0, 1}, DType::kBool, {3}), "bool"),
      m.graph->add_constant(stream::recipe::ints(std::vector<int64_t>{-5, INT64_MAX}, DType::kInt64, {2}), "i64"),
      m.graph->add_constant(stream::recipe::ints(std::vector<int64_t>{}, DType::kInt32, {0}), "empty")};
  for (core::ValueId id : constants) m.op(Kind::kAbs, {id}, core::NoOptions{}, DType::kFloat32, {1});
  for (bool external : {false, true}) {
    WriteOptions options;
    options.external_buffers = external;
    fs::path path = write(m, options);
    std::string bytes = bytes_of(path);
    flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    EXPECT_TRUE(tflite::VerifyModelBuffer(verifier));
    tfl::Model model = stream::read_tflite(path, budget_);
    EXPECT_EQ(constant(model, "i4"), (std::vector<double>{1, -8, 7, -1, 3}));
    EXPECT_EQ(constant(model, "bool"), (std::vector<double>{1, 0, 1}));
    EXPECT_EQ(constant(model, "i64")[0], -5);
    EXPECT_TRUE(constant(model, "empty").empty());
    for (const tfl::Tensor& tensor : model.subgraphs[0].tensors) {
      if (tensor.name == "i4") {
        EXPECT_EQ(tensor.data_bytes, 3u);
      }
      if (tensor.name == "bool") {
        EXPECT_EQ(tensor.data_bytes, 3u);
      }
    }
  }
}

TEST_F(TfliteWriter, SymbolicDimensionsBecomeMinusOne) {
  Made m;
  core::ValueId x = m.input(DType::kFloat32, {m.model->symbols.named("N"), 3}, "x");
  m.output(m.op(Kind::kAbs, {x}, core::NoOptions{}, DType::kFloat32, m.graph->at(x).shape), "y");
  tfl::Model model = stream::read_tflite(write(m), budget_);
  for (const tfl::Tensor& tensor : model.subgraphs[0].tensors) {
    EXPECT_EQ(tensor.shape, (core::Shape{1, 3}));
    EXPECT_EQ(tensor.shape_signature, (core::Shape{-1, 3}));
  }
}

TEST_F(TfliteWriter, NamesAreUniqueAndNeverEmpty) {
  Made m;
  core::ValueId x = m.input(DType::kFloat32, {3}, "x");
  m.graph->origins.push_back("node");
  core::ValueId a = m.op(Kind::kAbs, {x}, core::NoOptions{}, DType::kFloat32, {3});
  core::ValueId b = m.op(Kind::kNeg, {a}, core::NoOptions{}, DType::kFloat32, {3});
  core::ValueId c = m.op(Kind::kNeg, {b}, core::NoOptions{}, DType::kFloat32, {3});
  m.graph->at(a).name = "x";  // taken by the input
  m.graph->at(b).name = "y";  // taken by the output
  for (core::Op& op : m.graph->ops) op.origin = 1;
  core::ValueId d = m.op(Kind::kNeg, {c}, core::NoOptions{}, DType::kFloat32, {3});
  m.output(d, "y");
  tfl::Model model = stream::read_tflite(write(m), budget_);
  std::vector<std::string> names;
  for (const tfl::Tensor& tensor : model.subgraphs[0].tensors) names.push_back(tensor.name);
  EXPECT_THAT(names, testing::ElementsAre("x", "x_1", "y_1", "node/NEG", "y"));
}

TEST_F(TfliteWriter, OperatorCodesBeyondAByte) {
  Made m;
  core::ValueId x = m.input(DType::kFloat32, {3}, "x");
  m.output(m.op(Kind::kGelu, {x}, core::GeluOptions{true}, DType::kFloat32, {3}), "y");
  std::string bytes = bytes_of(write(m));
  const auto* code = tflite::GetModel(bytes.data())->operator_codes()->Get(0);
  EXPECT_EQ(code->deprecated_builtin_code(), 127);
  EXPECT_EQ(code->builtin_code(), tflite::BuiltinOperator::GELU);
}

TEST_F(TfliteWriter, SharedRecipesAreWrittenOnce) {
  Made m;
  auto recipe = stored(ramp(1000, 0, 1), {1000});
  core::ValueId x = m.input(DType::kFloat32, {1000}, "x");
  core::ValueId a = m.graph->add_constant(recipe, "a"), b = m.graph->add_constant(recipe, "b");
  core::ValueId sum = m.op(Kind::kAdd, {x, a}, core::BinaryOptions{}, DType::kFloat32, {1000});
  m.output(m.op(Kind::kMul, {sum, b}, core::BinaryOptions{}, DType::kFloat32, {1000}), "y");
  write(m);
  EXPECT_EQ(result_.payload_bytes, 4000u);
  EXPECT_EQ(result_.tensors, 5u);
}

TEST_F(TfliteWriter, DimensionsBeyond32BitsAreUnsupported) {
  Made m;
  core::ValueId x = m.input(DType::kFloat32, {int64_t{1} << 40}, "wide");
  m.output(m.op(Kind::kAbs, {x}, core::NoOptions{}, DType::kFloat32, {int64_t{1} << 40}), "y");
  try {
    write(m);
    FAIL();
  } catch (const stream::Unsupported& error) {
    EXPECT_THAT(error.what(), HasSubstr("'wide'"));
  }
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(TfliteWriter, OneValueCannotBeTwoOutputs) {
  Made m;
  core::ValueId x = m.input(DType::kFloat32, {3}, "x");
  core::ValueId y = m.op(Kind::kAbs, {x}, core::NoOptions{}, DType::kFloat32, {3});
  m.output(y, "y");
  m.output(y, "again");
  EXPECT_THROW(write(m), stream::Error);
}

TEST_F(TfliteWriter, AFailingSourceLeavesNoFileAndNamesTheTensor) {
  struct Broken : stream::Source {
    uint64_t size() const override { return 400; }
    const std::string& name() const override { return name_; }
    void read_at(uint64_t, std::span<std::byte>) const override {
      throw stream::Error(stream::Code::kIo, "the disk is gone");
    }
    std::string name_ = "broken";
  };
  Made m;
  core::ValueId x = m.input(DType::kFloat32, {100}, "x");
  core::ValueId w = m.graph->add_constant(
      stream::recipe::stored(std::make_shared<Broken>(), {{.offset = 0, .bytes = 400, .elements = 100}},
                             DType::kFloat32, {100}),
      "w17");
  m.output(m.op(Kind::kAdd, {x, w}, core::BinaryOptions{}, DType::kFloat32, {100}), "y");
  for (int threads : {1, 2}) {
    WriteOptions options;
    options.threads = threads;
    try {
      write(m, options, 64 << 20);
      FAIL();
    } catch (const stream::Error& error) {
      EXPECT_EQ(error.code(), stream::Code::kIo);
      EXPECT_THAT(error.what(), HasSubstr("w17"));
    }
    EXPECT_TRUE(fs::is_empty(folder_));
  }
}

TEST_F(TfliteWriter, ADryRunReportsTheSameNumbers) {
  write(small_network(99));
  WriteResult planned = summary(plan_tflite(*small_network(99).model, {}));
  EXPECT_EQ(planned.file_bytes, result_.file_bytes);
  EXPECT_EQ(planned.payload_bytes, result_.payload_bytes);
}

}  // namespace
}  // namespace lowtide::emit
