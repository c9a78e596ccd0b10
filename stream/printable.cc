// SPDX-License-Identifier: Apache-2.0
#include "stream/printable.h"

#include <fmt/format.h>

namespace lowtide::stream {
namespace {

unsigned char byte_at(std::string_view text, size_t i) { return static_cast<unsigned char>(text[i]); }

// Bytes of the UTF-8 sequence at the front of `text`; 0 when there is none.
size_t sequence_bytes(std::string_view text) {
  auto byte = [&](size_t i) { return byte_at(text, i); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return 0;
  for (size_t i = 1; i < bytes; ++i)
    if (byte(i) >> 6 != 2) return 0;
  const bool is_overlong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  const bool is_no_character = (first == 0xed && byte(1) > 0x9f) || (first == 0xf4 && byte(1) > 0x8f);
  return is_overlong || is_no_character ? 0 : bytes;
}

// The same, and 0 for control characters.
size_t printable_bytes(std::string_view text) {
  const size_t bytes = sequence_bytes(text);
  const unsigned char first = byte_at(text, 0);
  const bool is_control =
      bytes == 1 ? first < 0x20 || first == 0x7f : bytes == 2 && first == 0xc2 && byte_at(text, 1) < 0xa0;
  return is_control ? 0 : bytes;
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t bytes = sequence_bytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string_view end_of(std::string_view text, size_t most) {
  if (text.size() <= most) return text;
  text.remove_prefix(text.size() - most);
  while (!text.empty() && byte_at(text, 0) >> 6 == 2) text.remove_prefix(1);
  return text;
}

std::string shortened(std::string_view text, size_t most) {
  constexpr size_t kBeginning = 48;
  if (text.size() <= most) return std::string(text);
  size_t begin = kBeginning;
  while (begin > 0 && byte_at(text, begin) >> 6 == 2) --begin;
  constexpr std::string_view kLeftOut = "...";
  std::string out(text.substr(0, begin));
  out += kLeftOut;
  out += end_of(text, most - begin - kLeftOut.size());
  return out;
}

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t bytes = printable_bytes(text);
    if (bytes == 0) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    } else {
      out += text.substr(0, bytes);
    }
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return out;
}

}  // namespace lowtide::stream
