// SPDX-License-Identifier: Apache-2.0
#include "stream/file/seekable_source.h"

#include <gtest/gtest.h>
#include <zstd.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "stream/error.h"
#include "stream/file/seekable.h"
#include "tests/stream/scratch.h"

namespace lowtide::stream {
namespace {

using Bytes = std::vector<std::byte>;

template <typename T>
void put(Bytes& out, T number) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&number);
  out.insert(out.end(), bytes, bytes + sizeof number);
}

Bytes frame(const std::string& text) {
  Bytes out(ZSTD_compressBound(text.size()));
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

struct Entry {
  uint32_t compressed, bytes;
};

// Frames of `texts` with the table that they should have, changed by `damage`.
Bytes seekable_file(const std::vector<std::string>& texts, bool checksums = false,
                    const std::function<void(std::vector<Entry>&)>& damage = {}) {
  Bytes out;
  std::vector<Entry> entries;
  for (const std::string& text : texts) {
    Bytes packed = frame(text);
    entries.push_back({static_cast<uint32_t>(packed.size()), static_cast<uint32_t>(text.size())});
    out.insert(out.end(), packed.begin(), packed.end());
  }
  if (damage) damage(entries);
  put(out, seekable::kSkippableMagic);
  put(out, static_cast<uint32_t>(entries.size() * (checksums ? 12 : 8) + 9));
  for (const Entry& entry : entries) {
    put(out, entry.compressed);
    put(out, entry.bytes);
    if (checksums) put(out, uint32_t{0});
  }
  put(out, static_cast<uint32_t>(entries.size()));
  put(out, checksums ? seekable::kHasChecksums : uint8_t{0});
  put(out, seekable::kMagic);
  return out;
}

std::string read(const Source& source, uint64_t offset, uint64_t bytes) {
  std::string out(bytes, '\0');
  source.read_at(offset, std::as_writable_bytes(std::span(out)));
  return out;
}

TEST(SeekableSource, ReadsAcrossFramesOfAnySize) {
  for (bool checksums : {false, true}) {
    Budget budget(1 << 20);
    std::vector<std::string> texts = {"", "abc", "d", "", std::string(70'000, 'e'), "fgh", ""};
    for (int i = 0; i < 200; ++i)
      texts.push_back(std::string(static_cast<size_t>(i % 5), static_cast<char>('A' + i % 26)));
    std::string whole;
    for (const std::string& text : texts) whole += text;
    auto source = open_seekable(memory_source(seekable_file(texts, checksums), "m"), budget);
    ASSERT_TRUE(source);
    ASSERT_EQ(source->size(), whole.size());
    EXPECT_EQ(read(*source, 0, whole.size()), whole);
    for (uint64_t at : {0, 1, 2, 3, 4, 5, 70'003, 70'004, 70'005, 70'007, 70'300})
      EXPECT_EQ(read(*source, at, 11), whole.substr(at, 11)) << at;
    EXPECT_EQ(read(*source, whole.size(), 0), "");
    EXPECT_EQ(code_of([&] { read(*source, whole.size(), 1); }), Code::kMalformed);
  }
}

TEST(SeekableSource, DataWithoutASeekTableIsNotSeekable) {
  Budget budget(1 << 20);
  EXPECT_FALSE(open_seekable(memory_source(frame("plain"), "m"), budget));
  EXPECT_FALSE(open_seekable(memory_source({}, "m"), budget));
  EXPECT_EQ(open_seekable(memory_source(seekable_file({}), "m"), budget)->size(), 0u);
}

TEST(SeekableSource, WrongSeekTablesAreRefused) {
  Budget budget(1 << 20);
  auto opened = [&](Bytes file) {
    return code_of([&] {
      auto source = open_seekable(memory_source(std::move(file), "m"), budget);
      read(*source, 0, source->size());
    });
  };
  const std::vector<std::string> texts = {"some text", "more of it"};
  auto code_after = [&](const std::function<void(std::vector<Entry>&)>& damage) {
    return opened(seekable_file(texts, false, damage));
  };
  EXPECT_EQ(code_after([](auto& entries) { ++entries[0].compressed; }), Code::kMalformed);
  EXPECT_EQ(code_after([](auto& entries) { ++entries[0].compressed, --entries[1].compressed; }), Code::kMalformed);
  EXPECT_EQ(code_after([](auto& entries) { ++entries[1].bytes; }), Code::kMalformed);
  EXPECT_EQ(code_after([](auto& entries) { --entries[1].bytes; }), Code::kMalformed);
  EXPECT_EQ(code_after([](auto& entries) { entries.pop_back(); }), Code::kMalformed);
  EXPECT_EQ(code_after([](auto& entries) { entries[0].bytes = UINT32_MAX; }), Code::kBudget);
  EXPECT_EQ(code_after([](auto& entries) { entries[0].compressed = entries[1].compressed = 1u << 31; }),
            Code::kMalformed);
  Bytes many = seekable_file(texts);
  std::memset(many.data() + many.size() - 9, 0xff, 4);  // the number of frames
  EXPECT_EQ(opened(many), Code::kMalformed);
  Bytes form = seekable_file(texts);
  form[form.size() - 5] = std::byte{0x40};
  EXPECT_EQ(opened(form), Code::kMalformed);
  Bytes damaged = seekable_file(texts);
  damaged[6] ^= std::byte{0xff};
  EXPECT_EQ(opened(damaged), Code::kMalformed);
  Bytes front(many.begin() + 20, many.end());  // cut at its front: the table is whole, the frames are not
  std::memcpy(front.data() + front.size() - 9, "\x02\0\0\0", 4);
  EXPECT_EQ(opened(front), Code::kMalformed);
}

}  // namespace
}  // namespace lowtide::stream
