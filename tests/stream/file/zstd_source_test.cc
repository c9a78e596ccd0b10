// SPDX-License-Identifier: Apache-2.0
// Compressed input. The judge of the format is zstd's own compressor.
#include "stream/file/zstd_source.h"

#include <zstd.h>

#include "schemas/onnx.pb.h"
#include "stream/file/known_formats.h"
#include "stream/onnx/reader.h"
#include "tests/stream/scratch.h"

namespace lowtide::stream {
namespace {

namespace pb = ::onnx;

std::string compress(const std::string& text, int window_log = 0, bool declares_size = true) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, declares_size);
  if (window_log != 0) ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
  std::string out(ZSTD_compressBound(text.size()), '\0');
  ZSTD_inBuffer in = {text.data(), text.size(), 0};
  ZSTD_outBuffer made = {out.data(), out.size(), 0};
  // Streamed, so that the window is not cut down to the size of the text.
  if (!declares_size) ZSTD_compressStream2(context, &made, &in, ZSTD_e_flush);
  EXPECT_EQ(ZSTD_compressStream2(context, &made, &in, ZSTD_e_end), 0u);
  ZSTD_freeCCtx(context);
  out.resize(made.pos);
  return out;
}

std::string noise(size_t bytes) {
  std::string out;
  uint32_t state = 7;
  while (out.size() < bytes) {
    state = state * 1664525 + 1013904223;
    out.append(state >> 31 ? "some words that repeat " : std::string(1, static_cast<char>(state >> 24)));
  }
  out.resize(bytes);
  return out;
}

class Zstd : public ::testing::Test {
 protected:
  void SetUp() override { setenv("TMPDIR", folder_.path().c_str(), 1); }
  void TearDown() override { unsetenv("TMPDIR"); }
  std::shared_ptr<Source> expand(const std::string& bytes) {
    return decompress(*memory_source(to_bytes(bytes), "net.onnx.zst"), spill_, budget_);
  }
  ScratchFolder folder_;
  Spill spill_{{}};
  Budget budget_{16 << 20};
};

TEST_F(Zstd, ConcatenatedFrames) {
  const std::string a = noise(700000), b = noise(3), c = noise(131072);
  const std::string skippable("\x52\x2a\x4d\x18\x03\0\0\0abc", 11);
  auto source = expand(compress(a) + skippable + compress(b, 0, false) + compress(c) + compress(""));
  EXPECT_EQ(source->size(), a.size() + b.size() + c.size());
  EXPECT_EQ(read_text(*source, 0, source->size()), a + b + c);
  auto second = expand(compress(b));
  EXPECT_EQ(read_text(*second, 0, second->size()), b);
  EXPECT_EQ(read_text(*source, a.size(), 3), b);
  expect_error(Code::kMalformed, "the file ends at byte 3", [&] { read_text(*second, 2, 2); });
  EXPECT_EQ(folder_.entries(), 0u);  // the spill has no name
  EXPECT_EQ(budget_.available(), budget_.limit());
}

TEST_F(Zstd, CutAndDamagedDataAreErrors) {
  const std::string good = compress(noise(5000));
  for (size_t cut = 0; cut < good.size(); ++cut) {
    auto error = error_of([&] { expand(good.substr(0, cut)); });
    ASSERT_TRUE(error.has_value()) << cut;
    EXPECT_EQ(error->code(), Code::kMalformed) << error->what();
  }
  std::string damaged = good;
  damaged[damaged.size() / 2] ^= 1;
  expect_error(Code::kMalformed, "damaged zstd data", [&] { expand(damaged); });
  expect_error(Code::kMalformed, "not zstd data", [&] { expand(good + "trailing bytes that are no frame"); });
  expect_error(Code::kMalformed, "is empty", [&] { expand(""); });
  EXPECT_EQ(budget_.available(), budget_.limit());
}

TEST_F(Zstd, AWindowBeyondTheBudgetIsRefused) {
  const std::string bytes = compress(noise(100000), 25, false);
  expect_error(Code::kBudget, "the window of the zstd data takes 34078720 bytes", [&] { expand(bytes); });
  Budget enough(40 << 20);
  EXPECT_EQ(decompress(*memory_source(to_bytes(bytes), "net.onnx.zst"), spill_, enough)->size(), 100000u);
}

TEST_F(Zstd, ADeclaredSizeBeyondTheDiskIsRefusedImmediately) {
  // Magic, descriptor (8-byte size, single segment off), window of 1 KiB, content size 2^50.
  Spill spill({.max_ratio = 0});
  const std::string bomb("\x28\xb5\x2f\xfd\xc0\x00\0\0\0\0\0\0\x04\0\x01\0\0", 17);
  expect_error(Code::kNoSpace, "1125899906842624 bytes of temporary space",
               [&] { decompress(*memory_source(to_bytes(bomb + bomb), "net.onnx.zst"), spill, budget_); });
}

// A frame of zeros, 128 KiB for each 4 bytes; no size is declared.
std::string zeros(size_t blocks) {
  std::string out("\x28\xb5\x2f\xfd\x00\x38", 6);  // window of 128 KiB
  for (size_t i = 0; i < blocks; ++i) out += std::string({static_cast<char>(i + 1 == blocks ? 3 : 2), 0, 0x10, 0});
  return out;
}

TEST_F(Zstd, MoreThanTheRatioIsRefused) {
  const std::string bytes = zeros(600);  // 75 MiB
  expect_error(Code::kBudget, "decompresses to more than 67108864 bytes, 27892 times its own 2406",
               [&] { expand(bytes); });
  Spill spill({.max_ratio = 0});
  EXPECT_EQ(decompress(*memory_source(to_bytes(bytes), "net.onnx.zst"), spill, budget_)->size(), 600u << 17);
  Spill by_ratio({.max_ratio = 33000});  // 2406 * 33000 is more than 75 MiB
  EXPECT_EQ(decompress(*memory_source(to_bytes(bytes), "net.onnx.zst"), by_ratio, budget_)->size(), 600u << 17);
  // In all frames together.
  expect_error(Code::kBudget, "decompresses to more than 67108864 bytes", [&] { expand(zeros(300) + zeros(300)); });
  EXPECT_EQ(expand(zeros(300))->size(), 300u << 17);
}

TEST_F(Zstd, TheFirstBytesAreShownBeforeTheRest) {
  std::string seen;
  auto look = [&](std::span<const std::byte> first) {
    seen.assign(reinterpret_cast<const char*>(first.data()), first.size());
    if (first[0] == std::byte{0}) throw Error(Code::kMalformed, "not wanted");
  };
  auto open = [&](const std::string& bytes) {
    return decompress(*memory_source(to_bytes(bytes), "net.onnx.zst"), spill_, budget_, look);
  };
  const std::string text = noise(5000);
  open(compress(text));
  EXPECT_EQ(seen, text.substr(0, kFirstBytes));
  open(compress(text.substr(0, 10)) + compress(text.substr(10, 20)));  // from several frames, and fewer than wanted
  EXPECT_EQ(seen, text.substr(0, 30));
  open(compress(text.substr(0, 10)) + compress(text.substr(10)));
  EXPECT_EQ(seen, text.substr(0, kFirstBytes));
  const uint64_t before = spill_.size();
  expect_error(Code::kMalformed, "not wanted", [&] { open(zeros(2)); });
  EXPECT_EQ(spill_.size(), before);  // nothing was spilled
  const auto first = first_decompressed_bytes(*memory_source(to_bytes(compress(text)), "net.onnx.zst"), budget_);
  EXPECT_EQ(first, to_bytes(text.substr(0, kFirstBytes)));
  EXPECT_EQ(first_decompressed_bytes(*memory_source(to_bytes(compress("abc")), "m"), budget_), to_bytes("abc"));
}

// Counts how often it is read.
class ReadCountingSource final : public Source {
 public:
  explicit ReadCountingSource(const std::string& bytes) : source_(memory_source(to_bytes(bytes), "net.onnx.zst")) {}
  uint64_t size() const override { return source_->size(); }
  const std::string& name() const override { return source_->name(); }
  void read_at(uint64_t offset, std::span<std::byte> out) const override {
    ++reads;
    source_->read_at(offset, out);
  }
  mutable size_t reads = 0;

 private:
  std::shared_ptr<Source> source_;
};

TEST_F(Zstd, ManyFramesAreReadInBuffers) {
  const std::string skippable("\x50\x2a\x4d\x18\0\0\0\0", 8), empty("\x28\xb5\x2f\xfd\x20\0\1\0\0", 9);
  std::string bytes;
  for (int i = 0; i < 100000; ++i) bytes += i % 2 ? skippable : empty;
  ReadCountingSource source(bytes + compress("abc"));
  EXPECT_EQ(decompress(source, spill_, budget_)->size(), 3u);
  EXPECT_LT(source.reads, 40u);
  // What a skippable frame holds is not read at all; one that is cut is an error.
  const std::string large = std::string("\x50\x2a\x4d\x18\0\0\x10\0", 8) + std::string(1 << 20, 'x');
  ReadCountingSource skipped(large + compress("abc"));
  EXPECT_EQ(decompress(skipped, spill_, budget_)->size(), 3u);
  EXPECT_LT(skipped.reads, 4u);
  expect_error(Code::kMalformed, "cut", [&] { expand(large.substr(0, large.size() - 1)); });
}

TEST_F(Zstd, ModelsAndTheirExternalFiles) {
  pb::ModelProto model;
  model.set_ir_version(10);
  model.add_opset_import()->set_version(21);
  for (const char* location : {"a.bin", "b.bin.zst", "c.bin"}) {
    pb::TensorProto* tensor = model.mutable_graph()->add_initializer();
    tensor->set_name(location);
    tensor->set_data_type(pb::TensorProto::UINT8);
    tensor->add_dims(5);
    tensor->set_data_location(pb::TensorProto::EXTERNAL);
    for (auto [key, value] : {std::pair{"location", location}, {"offset", "2"}, {"length", "5"}}) {
      auto* entry = tensor->add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
  }
  ScratchFolder place;
  write_file(place / "net.onnx.zst", compress(model.SerializeAsString()));
  write_file(place / "a.bin.zst", compress("0123456789"));
  write_file(place / "b.bin.zst", compress("abcdefghij"));
  write_file(place / "c.bin", "ABCDEFGHIJ");
  onnx::Model got = read_onnx(place / "net.onnx.zst", budget_);
  EXPECT_EQ(got.file_bytes, model.ByteSizeLong());
  std::vector<std::string> read;
  for (const onnx::Tensor& tensor : got.graph.initializers) {
    const step::Stored* stored = recipe::plain_stored(*tensor.data);
    read.push_back(read_text(*stored->source, stored->file_runs[0].offset, stored->file_runs[0].bytes));
  }
  EXPECT_EQ(read, (std::vector<std::string>{"23456", "cdefg", "CDEFG"}));
  std::filesystem::remove(place / "a.bin.zst");
  expect_error(Code::kNotFound, "external data 'a.bin' cannot be opened",
               [&] { read_onnx(place / "net.onnx.zst", budget_); });
}

}  // namespace
}  // namespace lowtide::stream
