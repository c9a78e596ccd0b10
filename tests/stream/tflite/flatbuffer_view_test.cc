// SPDX-License-Identifier: Apache-2.0
#include "stream/tflite/flatbuffer_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>

#include "schemas/tflite_generated.h"
#include "stream/tflite/flatbuffer_verifier.h"
#include "stream/tflite/reader.h"
#include "tests/stream/scratch.h"

namespace lowtide::stream {
namespace {

using testing::HasSubstr;

// One operator, a quantized and a sparse constant, a signature, metadata: every kind of field.
std::vector<std::byte> small_model() {
  namespace fb = flatbuffers;
  fb::FlatBufferBuilder b;
  const std::vector<int32_t> shape = {2, 3}, first = {0, 1}, second = {2};
  const std::vector<uint8_t> data = {1, 2, 3, 4, 5, 6}, note = {'1', '.', '2'};
  const std::vector<float> scale = {0.5f, 0.25f};
  const std::vector<int64_t> zero_point = {3, -4};
  auto quantization = tflite::CreateQuantizationParametersDirect(b, nullptr, nullptr, &scale, &zero_point);
  const std::vector<fb::Offset<tflite::DimensionMetadata>> dims = {tflite::CreateDimensionMetadata(
      b, tflite::DimensionType::SPARSE_CSR, 3, tflite::SparseIndexVector::Int32Vector,
      tflite::CreateInt32VectorDirect(b, &first).Union(), tflite::SparseIndexVector::Uint8Vector,
      tflite::CreateUint8VectorDirect(b, &data).Union())};
  auto sparsity = tflite::CreateSparsityParametersDirect(b, &first, &second, &dims);
  const std::vector<fb::Offset<tflite::Tensor>> tensors = {
      tflite::CreateTensorDirect(b, &shape, tflite::TensorType::UINT8, 0, "x", 0, false, 0, &shape),
      tflite::CreateTensorDirect(b, &shape, tflite::TensorType::UINT8, 1, "w", quantization, false, sparsity),
      tflite::CreateTensorDirect(b, &shape, tflite::TensorType::UINT8, 0, "y")};
  const std::vector<int32_t> x = {0};
  auto op = tflite::CreateOperatorDirect(b, 0, &first, &second, tflite::BuiltinOptions::Conv2DOptions,
                                         tflite::CreateConv2DOptions(b, tflite::Padding::VALID, 2, 3).Union(), &note,
                                         {}, nullptr, &x);
  const std::vector<fb::Offset<tflite::Operator>> ops = {op};
  const std::vector<fb::Offset<tflite::SubGraph>> graphs = {
      tflite::CreateSubGraphDirect(b, &tensors, &x, &second, &ops, "main")};
  const std::vector<fb::Offset<tflite::OperatorCode>> codes = {
      tflite::CreateOperatorCodeDirect(b, 3, nullptr, 2, tflite::BuiltinOperator::CONV_2D)};
  const std::vector<fb::Offset<tflite::Buffer>> buffers = {
      tflite::CreateBuffer(b), tflite::CreateBufferDirect(b, &data), tflite::CreateBufferDirect(b, &note)};
  const std::vector<fb::Offset<tflite::TensorMap>> in = {tflite::CreateTensorMapDirect(b, "x", 0)},
                                                   out = {tflite::CreateTensorMapDirect(b, "y", 2)};
  const std::vector<fb::Offset<tflite::SignatureDef>> signatures = {
      tflite::CreateSignatureDefDirect(b, &in, &out, "serving_default")};
  const std::vector<fb::Offset<tflite::Metadata>> metadata = {tflite::CreateMetadataDirect(b, "note", 2)};
  tflite::FinishModelBuffer(
      b, tflite::CreateModelDirect(b, 3, &codes, &graphs, "small", &buffers, nullptr, &metadata, &signatures));
  std::vector<std::byte> bytes(b.GetSize());
  std::memcpy(bytes.data(), b.GetBufferPointer(), bytes.size());
  return bytes;
}

std::string refusal(const std::function<void()>& work) {
  const std::optional<Error> error = error_of(work);
  if (!error) return "";
  // Unsupported: a version of the format that does not exist.
  EXPECT_TRUE(error->code() == Code::kMalformed || error->code() == Code::kUnsupported) << error->what();
  return error->what();
}

std::string verify(std::vector<std::byte> bytes) {
  return refusal([&] {
    Budget budget(1 << 20);
    auto source = memory_source(std::move(bytes), "m.tflite");
    FlatbufferView view(*source, budget);
    verify_flatbuffer(view.root(), *tflite::ModelTypeTable());
  });
}

bool flatbuffers_own(const std::vector<std::byte>& bytes) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  return tflite::VerifyModelBuffer(verifier);
}

TEST(FlatbufferVerifier, AgreesWithTheFlatbuffersVerifier) {
  const std::vector<std::byte> good = small_model();
  ASSERT_TRUE(flatbuffers_own(good));
  ASSERT_EQ(verify(good), "");
  std::mt19937 random(5);
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::byte> bytes = good;
    // The root and the identifier are where a change is refused at once.
    for (uint32_t i = 0; i <= random() % 2; ++i)
      bytes[8 + random() % (bytes.size() - 8)] =
          static_cast<std::byte>(random() % 2 ? random() % 256 : random() % 8 * 4);
    const bool is_good = flatbuffers_own(bytes);
    refused += !is_good;
    const std::string found = verify(bytes);
    // We refuse more: flatbuffers looks neither at a deprecated field nor at the sign of an offset in a vector.
    const bool is_stricter =
        is_good && (found.find("is invalid") != std::string::npos || found.find("deprecated") != std::string::npos);
    ASSERT_TRUE(found.empty() == is_good || is_stricter) << "round " << round << ": " << found;
    Budget budget(1 << 20);
    refusal([&] { read_tflite(memory_source(std::move(bytes), "m.tflite"), budget); });
  }
  EXPECT_GT(refused, 2000);
  EXPECT_LT(refused, 18'000);
}

TEST(FlatbufferVerifier, TruncatedAtEveryByte) {
  const std::vector<std::byte> good = small_model();
  for (size_t bytes = 0; bytes < good.size(); ++bytes) {
    const std::vector<std::byte> cut(good.begin(), good.begin() + static_cast<ptrdiff_t>(bytes));
    EXPECT_EQ(verify(cut).empty(), flatbuffers_own(cut)) << bytes;
  }
}

TEST(FlatbufferVerifier, ErrorsNameTheOffset) {
  std::vector<std::byte> bytes = small_model();
  const auto* tensor = tflite::GetModel(bytes.data())->subgraphs()->Get(0)->tensors()->Get(1);
  const auto at = reinterpret_cast<const std::byte*>(tensor->shape()) - bytes.data();
  const uint32_t count = 1 << 30;
  std::memcpy(bytes.data() + at, &count, sizeof count);
  EXPECT_THAT(verify(bytes), HasSubstr("subgraphs[0].tensors[1].shape"));
}

// Two million tensors of a few bytes: all are the same table.
TEST(FlatbufferVerifier, SharedTablesCountOncePerReference) {
  flatbuffers::FlatBufferBuilder b;
  const auto tensor = tflite::CreateTensorDirect(b, nullptr, tflite::TensorType::FLOAT32, 0, "many");
  const std::vector<flatbuffers::Offset<tflite::Tensor>> tensors(2'000'000, tensor);
  const std::vector<flatbuffers::Offset<tflite::SubGraph>> graphs = {tflite::CreateSubGraphDirect(b, &tensors)};
  tflite::FinishModelBuffer(b, tflite::CreateModelDirect(b, 3, nullptr, &graphs));
  std::vector<std::byte> bytes(b.GetSize());
  std::memcpy(bytes.data(), b.GetBufferPointer(), bytes.size());
  EXPECT_FALSE(flatbuffers_own(bytes));
  EXPECT_THAT(verify(bytes), HasSubstr("1000000 tables"));
}

// A name of 1 MiB that a thousand tensors share would be held a thousand times.
TEST(TfliteReader, SharedStringsCountAgainstTheBudgetForEachUse) {
  flatbuffers::FlatBufferBuilder b;
  const auto name = b.CreateString(std::string(1 << 20, 'n'));
  std::vector<flatbuffers::Offset<tflite::Tensor>> tensors;
  for (int i = 0; i < 1000; ++i) tensors.push_back(tflite::CreateTensor(b, 0, tflite::TensorType::FLOAT32, 0, name));
  const std::vector<flatbuffers::Offset<tflite::SubGraph>> graphs = {tflite::CreateSubGraphDirect(b, &tensors)};
  const std::vector<flatbuffers::Offset<tflite::Buffer>> buffers = {tflite::CreateBuffer(b)};
  tflite::FinishModelBuffer(b, tflite::CreateModelDirect(b, 3, nullptr, &graphs, nullptr, &buffers));
  std::vector<std::byte> bytes(b.GetSize());
  std::memcpy(bytes.data(), b.GetBufferPointer(), bytes.size());
  ASSERT_EQ(verify(bytes), "");
  EXPECT_THAT(refusal([&] {
                Budget budget(1 << 20);
                read_tflite(memory_source(std::move(bytes), "m.tflite"), budget);
              }),
              HasSubstr("512 MiB"));
}

}  // namespace
}  // namespace lowtide::stream
