// SPDX-License-Identifier: Apache-2.0
#include "stream/onnx/wire.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <cstring>

#include "tests/stream/scratch.h"

namespace lowtide::stream {
namespace {

// The judge of the wire format is protobuf's own writer.
template <typename Write>
std::string encode(Write&& write) {
  std::string out;
  {
    google::protobuf::io::StringOutputStream stream(&out);
    google::protobuf::io::CodedOutputStream coded(&stream);
    write(coded);
  }
  return out;
}

std::string field(uint32_t number, const std::string& body) {
  return encode([&](auto& out) {
    out.WriteTag(number << 3 | 2);
    out.WriteVarint64(body.size());
    out.WriteString(body);
  });
}

TEST(Wire, WalksFieldsOfEveryKindAndSkipsWhatIsNotRead) {
  std::string bytes = encode([](auto& out) {
    out.WriteTag(1 << 3 | 0);
    out.WriteVarint64(UINT64_MAX);
    out.WriteTag(2 << 3 | 5);
    float f = -1.5F;
    out.WriteRaw(&f, 4);
    out.WriteTag(3 << 3 | 1);
    out.WriteLittleEndian64(77);
  });
  bytes += field(4, std::string(200000, 's')) + field(5, "text") + field(536870911, field(1, "inner"));
  auto source = memory_source(to_bytes(bytes), "bytes");
  Budget budget(1 << 20);
  Wire wire(*source, budget);
  Message m(wire, wire.all());
  ASSERT_TRUE(m.next());
  EXPECT_EQ(m.int64(), -1);
  EXPECT_EQ(m.offset(), 0u);
  ASSERT_TRUE(m.next());
  EXPECT_EQ(m.float32(), -1.5F);
  expect_error(Code::kMalformed, "a number is wanted", [&] { m.varint(); });
  ASSERT_TRUE(m.next());
  EXPECT_EQ(m.end_offset() - m.value_offset(), 8u);
  ASSERT_TRUE(m.next());
  EXPECT_EQ(m.body().bytes(), 200000u);
  ASSERT_TRUE(m.next());
  EXPECT_EQ(m.field(), 5);
  EXPECT_EQ(m.text(), "text");
  EXPECT_EQ(m.text(), "text");  // again, from the same place
  ASSERT_TRUE(m.next());
  EXPECT_EQ(m.field(), 536870911);
  {
    Message inner(wire, m.body());
    ASSERT_TRUE(inner.next());
    EXPECT_EQ(inner.text(), "inner");
    EXPECT_FALSE(inner.next());
  }
  EXPECT_FALSE(m.next());
}

TEST(Wire, NumbersPackedOrNot) {
  std::string packed = encode([](auto& out) {
    for (uint64_t value : {uint64_t{1}, uint64_t{300}, UINT64_MAX}) out.WriteVarint64(value);
  });
  std::string bytes = field(1, packed) + encode([](auto& out) {
                        out.WriteTag(1 << 3 | 0);
                        out.WriteVarint64(5);
                      });
  const std::vector<float> floats = {1.25F, -3, 7};
  bytes += field(2, {reinterpret_cast<const char*>(floats.data()), 12});
  auto source = memory_source(to_bytes(bytes), "bytes");
  Budget budget(1 << 20);
  Wire wire(*source, budget);
  std::vector<int64_t> ints;
  std::vector<float> read;
  Message m(wire, wire.all());
  while (m.next()) {
    if (m.field() == 1) m.append(ints);
    if (m.field() == 2) m.append(read);
    if (m.field() == 1 && m.has_length()) {
      EXPECT_EQ(wire.count_varints(m.body()), 3u);
    }
  }
  EXPECT_EQ(ints, (std::vector<int64_t>{1, 300, -1, 5}));
  EXPECT_EQ(read, floats);
}

void walk(Wire& wire, Range range) {
  Message m(wire, range);
  while (m.next()) {
    if (m.field() == 1) walk(wire, m.body());
    if (m.field() == 2) m.text();
  }
}

TEST(Wire, BrokenBytesAreErrors) {
  struct Case {
    std::string bytes;
    std::string error;
  };
  std::string deep;
  for (int i = 0; i < 120; ++i) deep = field(1, deep);
  const std::vector<Case> cases = {
      {"\x0a", "ends within a number"},
      {std::string("\x0a\x05"
                   "abc"),
       "is 5 bytes long, and its message has 3 left"},
      {std::string("\x0d\x01\x02", 3), "beyond the end"},
      {std::string("\x09\x01\x02", 3), "beyond the end"},
      {"\x0b", "wire type 3"},
      {"\x0c", "wire type 4"},
      {"\x0f", "wire type 7"},
      {std::string("\0\0", 2), "tag 0"},
      {std::string(11, '\xff'), "more than 10 bytes"},
      {"\x0a\x02\x12\x05\x01\x01\x01\x01\x01", "is 5 bytes long, and its message has 0 left"},
      {deep, "deeper than 100"},
  };
  for (const Case& c : cases) {
    auto source = memory_source(to_bytes(c.bytes), "bytes");
    Budget budget(1 << 20);
    Wire wire(*source, budget);
    expect_error(Code::kMalformed, c.error, [&] { walk(wire, wire.all()); });
  }
}

// Equal fields of 64 KiB one after the other, made as they are read.
class EndlessFields final : public Source {
 public:
  static constexpr uint64_t kFieldBytes = 64 * 1024;
  explicit EndlessFields(uint64_t fields) : size_(fields * kFieldBytes) {}
  uint64_t size() const override { return size_; }
  const std::string& name() const override { return name_; }
  void read_at(uint64_t offset, std::span<std::byte> out) const override {
    constexpr unsigned char kHead[] = {0x0a, 0xfc, 0xff, 0x03};  // field 1 of 65532 bytes
    for (size_t i = 0; i < out.size(); ++i) {
      const uint64_t inside = (offset + i) % kFieldBytes;
      out[i] = std::byte{inside < sizeof(kHead) ? kHead[inside] : uint8_t{0}};
    }
  }

 private:
  uint64_t size_;
  std::string name_ = "endless";
};

// No single jump is long, so the count of CodedInputStream grows past what an int holds unless it is opened anew.
TEST(Wire, ManySmallFieldsBeyondFourGigabytes) {
  constexpr uint64_t kFields = 70000;
  EndlessFields source(kFields);
  Budget budget(1 << 20);
  Wire wire(source, budget);
  Message m(wire, wire.all());
  uint64_t fields = 0;
  for (; m.next(); ++fields) {
    ASSERT_EQ(m.offset(), fields * EndlessFields::kFieldBytes);
    ASSERT_EQ(m.body().end, (fields + 1) * EndlessFields::kFieldBytes);
  }
  EXPECT_EQ(fields, kFields);
}

TEST(Wire, TruncatedVarintsAreErrors) {
  Budget budget(1 << 20);
  auto cut = memory_source(to_bytes("\x01\x82"), "bytes");
  Wire wire(*cut, budget);
  expect_error(Code::kMalformed, "ends within a number", [&] { wire.count_varints({0, 2}); });
  auto longer = memory_source(to_bytes(std::string(30, '\x80')), "bytes");
  Wire second(*longer, budget);
  expect_error(Code::kMalformed, "more than 10 bytes", [&] { second.count_varints({0, 30}); });
}

}  // namespace
}  // namespace lowtide::stream
