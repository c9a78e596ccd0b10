#include "stream/error.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace lowtide::stream {
namespace {

struct CodeRow {
  Code code;
  std::string_view name;
  int status;
};
constexpr std::array kCodes = {
    CodeRow{Code::kUsage, "usage", 2},
    CodeRow{Code::kNotFound, "not-found", 3},
    CodeRow{Code::kIo, "io", 4},
    CodeRow{Code::kNoSpace, "no-space", 5},
    CodeRow{Code::kMalformed, "malformed", 6},
    CodeRow{Code::kUnsafePath, "unsafe-path", 7},
    CodeRow{Code::kUnsupported, "unsupported", 8},
    CodeRow{Code::kBudget, "budget", 9},
    CodeRow{Code::kInterrupted, "interrupted", 10},
    CodeRow{Code::kInternal, "internal", 11},
};
constexpr bool in_order() {
  for (size_t i = 0; i < kCodes.size(); ++i)
    if (static_cast<size_t>(kCodes[i].code) != i) return false;
  return true;
}
static_assert(in_order(), "kCodes is indexed by Code");

// Bytes of the UTF-8 sequence at the front of `text`; 0 when there is none, and for control characters.
size_t printable_bytes(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f;
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return 0;
  for (size_t i = 1; i < bytes; ++i)
    if (byte(i) >> 6 != 2) return 0;
  const bool is_overlong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  const bool is_no_character = (first == 0xed && byte(1) > 0x9f) || (first == 0xf4 && byte(1) > 0x8f);
  const bool is_control = first == 0xc2 && byte(1) < 0xa0;
  return is_overlong || is_no_character || is_control ? 0 : bytes;
}

// Names come from files: control characters and what is not UTF-8 would break the line or the terminal.
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

std::string format_line(Code code, const std::string& text, const Where& where) {
  std::string place;
  auto add = [&](const std::string& piece) { place += (place.empty() ? "" : ", ") + piece; };
  if (!where.op.empty()) {
    add(fmt::format("node '{}' ({})", where.node, where.op));
  } else if (!where.node.empty()) {
    add(fmt::format("node '{}'", where.node));
  }
  if (!where.slot.empty()) add(where.slot);
  if (where.offset) add(fmt::format("byte {}", *where.offset));
  std::string line;
  if (!where.file.empty()) line += where.file + ": ";
  if (!place.empty()) line += place + ": ";
  return printable(fmt::format("{}{} [{}]", line, text, code_name(code)));
}

}  // namespace

std::string_view code_name(Code code) { return kCodes[static_cast<size_t>(code)].name; }
int exit_status(Code code) { return kCodes[static_cast<size_t>(code)].status; }

Error::Error(Code code, std::string text, Where where)
    : code_(code), text_(std::move(text)), where_(std::move(where)), line_(format_line(code_, text_, where_)) {}

void Error::add_place(const Where& outer) {
  if (where_.file.empty()) where_.file = outer.file;
  if (!where_.offset) where_.offset = outer.offset;
  if (where_.node.empty()) where_.node = outer.node;
  if (where_.op.empty()) where_.op = outer.op;
  if (where_.slot.empty()) where_.slot = outer.slot;
  line_ = format_line(code_, text_, where_);
}

Unsupported::Unsupported(std::string reason, std::string hint, Where where)
    : Error(Code::kUnsupported, hint.empty() ? reason : fmt::format("{}; {}", reason, hint), std::move(where)),
      reason_(std::move(reason)),
      hint_(std::move(hint)) {}

}  // namespace lowtide::stream
