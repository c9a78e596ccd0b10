// SPDX-License-Identifier: Apache-2.0
// Source of the format: FlatBuffers' documentation of FlexBuffers (flexbuffers.md).
#include "stream/tflite/flexbuffer.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "stream/error.h"

namespace lowtide::stream {
namespace {

constexpr int kMostDepth = 64;
constexpr size_t kMostValues = 250'000;
constexpr size_t kMostTextBytes = size_t{16} << 20;

enum class FlexType : uint8_t {
  kNull = 0,
  kInt = 1,
  kUInt = 2,
  kFloat = 3,
  kKey = 4,
  kString = 5,
  kIndirectInt = 6,
  kIndirectUInt = 7,
  kIndirectFloat = 8,
  kMap = 9,
  kVector = 10,
  kVectorInt = 11,
  kVectorUInt = 12,
  kVectorFloat = 13,
  kVectorKey = 14,
  kVectorString = 15,
  kVectorInt2 = 16,  // two, three and four integers, unsigned integers, floats: 16 to 24
  kVectorFloat4 = 24,
  kBlob = 25,
  kBool = 26,
  kVectorBool = 36,
};

[[noreturn]] void no_flexbuffer(const std::string& text) {
  throw Error(Code::kMalformed, "the bytes are no flexbuffer: " + text);
}

// A value: where its bytes, or the offset to them, stand, how many these are, and what they are.
struct FlexPlace {
  size_t at = 0;
  size_t width = 1;  // of what stands at `at`
  FlexType type = FlexType::kNull;
  size_t inner = 1;  // the width of what an offset leads to
};

class FlexReader {
 public:
  explicit FlexReader(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  FlexValue root() {
    constexpr size_t kTrailer = 2;
    if (bytes_.size() < kTrailer + 1) no_flexbuffer("it is too short");
    const size_t width = bytes_[bytes_.size() - 1];
    if (!is_width(width)) no_flexbuffer(fmt::format("its root has the width {}", width));
    if (bytes_.size() < kTrailer + width) no_flexbuffer("it is too short for its root");
    const size_t at = bytes_.size() - kTrailer - width;
    return value(place(at, width, bytes_[bytes_.size() - kTrailer]), 0);
  }

 private:
  static bool is_width(size_t width) { return width == 1 || width == 2 || width == 4 || width == 8; }

  static FlexPlace place(size_t at, size_t width, uint8_t packed) {
    return {at, width, static_cast<FlexType>(packed >> 2), size_t{1} << (packed & 3)};
  }

  void check(size_t at, size_t count) const {
    if (at > bytes_.size() || count > bytes_.size() - at)
      no_flexbuffer(fmt::format("{} bytes at offset {} are not in it", count, at));
  }

  uint64_t number(size_t at, size_t width) const {
    check(at, width);
    uint64_t out = 0;
    for (size_t i = 0; i < width; ++i) out |= uint64_t{bytes_[at + i]} << (8 * i);
    return out;
  }
  int64_t signed_number(size_t at, size_t width) const {
    const unsigned unused = 64 - 8 * static_cast<unsigned>(width);
    return static_cast<int64_t>(number(at, width) << unused) >> unused;
  }
  double real(size_t at, size_t width) const {
    const uint64_t bits = number(at, width);
    if (width == 4) return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    if (width == 8) return std::bit_cast<double>(bits);
    no_flexbuffer(fmt::format("the number at offset {} is a float of {} bytes", at, width));
  }

  // Where the offset that stands at `at` leads to.
  size_t target(size_t at, size_t width) const {
    const uint64_t back = number(at, width);
    if (back > at) no_flexbuffer(fmt::format("the offset {} at {} leads out of it", back, at));
    return at - static_cast<size_t>(back);
  }

  // The count that stands in front of a list, a map, a string or a blob.
  size_t count(size_t at, size_t width, size_t element) const {
    if (at < width) no_flexbuffer(fmt::format("the list at {} has no count", at));
    const uint64_t out = number(at - width, width);
    if (out > bytes_.size() / element) no_flexbuffer(fmt::format("{} elements at {} are not in it", out, at));
    check(at, static_cast<size_t>(out) * element);
    return static_cast<size_t>(out);
  }

  void count_text(size_t bytes) {
    text_bytes_ += bytes;
    if (text_bytes_ > kMostTextBytes) no_flexbuffer(fmt::format("it has more than {} bytes of text", kMostTextBytes));
  }

  std::string text(size_t at, size_t bytes) {
    check(at, bytes);
    count_text(bytes);
    return {reinterpret_cast<const char*>(bytes_.data()) + at, bytes};
  }

  std::string key(size_t at) {
    check(at, 1);
    const void* end = std::memchr(bytes_.data() + at, 0, bytes_.size() - at);
    if (!end) no_flexbuffer(fmt::format("the key at {} has no end", at));
    return text(at, static_cast<size_t>(static_cast<const uint8_t*>(end) - bytes_.data()) - at);
  }

  FlexValue value(const FlexPlace& p, int depth) {
    if (depth > kMostDepth) no_flexbuffer(fmt::format("it is nested deeper than {}", kMostDepth));
    if (++values_ > kMostValues) no_flexbuffer(fmt::format("it has more than {} values", kMostValues));
    switch (p.type) {
      case FlexType::kNull:
        return {};
      case FlexType::kBool:
        return {number(p.at, p.width) != 0};
      case FlexType::kInt:
        return {signed_number(p.at, p.width)};
      case FlexType::kUInt:
        return {number(p.at, p.width)};
      case FlexType::kFloat:
        return {real(p.at, p.width)};
      default:
        break;
    }
    const size_t at = target(p.at, p.width);
    switch (p.type) {
      case FlexType::kKey:
        return {key(at)};
      case FlexType::kString:
        return {text(at, count(at, p.inner, 1))};
      case FlexType::kIndirectInt:
        return {signed_number(at, p.inner)};
      case FlexType::kIndirectUInt:
        return {number(at, p.inner)};
      case FlexType::kIndirectFloat:
        return {real(at, p.inner)};
      case FlexType::kBlob: {
        const size_t bytes = count(at, p.inner, 1);
        count_text(bytes);
        return {FlexValue::Blob{{bytes_.begin() + static_cast<std::ptrdiff_t>(at),
                                 bytes_.begin() + static_cast<std::ptrdiff_t>(at + bytes)}}};
      }
      case FlexType::kMap:
        return map(at, p.inner, depth);
      case FlexType::kVector:
        return list(at, p.inner, depth);
      default:
        return typed_list(at, p, depth);
    }
  }

  // The types of the elements stand behind them, a byte each.
  FlexValue element(size_t at, size_t width, size_t elements, size_t i, int depth) {
    const size_t types = at + elements * width;
    check(types, elements);
    return value(place(at + i * width, width, bytes_[types + i]), depth + 1);
  }

  FlexValue list(size_t at, size_t width, int depth) {
    FlexValue::List out;
    const size_t elements = count(at, width, width);
    for (size_t i = 0; i < elements; ++i) out.push_back(element(at, width, elements, i, depth));
    return {std::move(out)};
  }

  // In front of a map's count are the offset to its keys, a list of their own, and the width of that list.
  FlexValue map(size_t at, size_t width, int depth) {
    constexpr size_t kFields = 3;
    if (at < kFields * width) no_flexbuffer(fmt::format("the map at {} has no keys", at));
    const size_t keys = target(at - kFields * width, width);
    const uint64_t key_width = number(at - 2 * width, width);
    if (!is_width(static_cast<size_t>(key_width))) no_flexbuffer(fmt::format("keys of the width {}", key_width));
    const size_t elements = count(at, width, width);
    if (count(keys, static_cast<size_t>(key_width), static_cast<size_t>(key_width)) != elements)
      no_flexbuffer(fmt::format("the map at {} has another number of keys than of values", at));
    FlexValue::Map out;
    for (size_t i = 0; i < elements; ++i) {
      const size_t one = keys + i * static_cast<size_t>(key_width);
      std::string name = key(target(one, static_cast<size_t>(key_width)));
      out.push_back({std::move(name), element(at, width, elements, i, depth)});
    }
    return {std::move(out)};
  }

  // Lists of one type; those of two to four numbers have no count.
  FlexValue typed_list(size_t at, const FlexPlace& p, int depth) {
    const auto type = static_cast<uint8_t>(p.type);
    FlexType of = FlexType::kNull;
    size_t elements = 0;
    if (p.type >= FlexType::kVectorInt && p.type <= FlexType::kVectorString) {
      of = static_cast<FlexType>(type - static_cast<uint8_t>(FlexType::kVectorInt) + 1);
      elements = count(at, p.inner, p.inner);
    } else if (p.type == FlexType::kVectorBool) {
      of = FlexType::kBool;
      elements = count(at, p.inner, p.inner);
    } else if (p.type >= FlexType::kVectorInt2 && p.type <= FlexType::kVectorFloat4) {
      const unsigned place_in_row = type - static_cast<unsigned>(FlexType::kVectorInt2);
      of = static_cast<FlexType>(place_in_row % 3 + 1);
      elements = place_in_row / 3 + 2;
      check(at, elements * p.inner);
    } else {
      no_flexbuffer(fmt::format("{} is no type", type));
    }
    FlexValue::List out;
    for (size_t i = 0; i < elements; ++i) out.push_back(value({at + i * p.inner, p.inner, of, 1}, depth + 1));
    return {std::move(out)};
  }

  std::span<const uint8_t> bytes_;
  size_t values_ = 0, text_bytes_ = 0;
};

}  // namespace

FlexValue read_flexbuffer(std::span<const uint8_t> bytes) { return FlexReader(bytes).root(); }

}  // namespace lowtide::stream
