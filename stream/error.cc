// SPDX-License-Identifier: Apache-2.0
#include "stream/error.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "stream/printable.h"

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
    CodeRow{Code::kDifferent, "different", 12},
};
static_assert(
    [] {
      for (size_t i = 0; i < kCodes.size(); ++i)
        if (static_cast<size_t>(kCodes[i].code) != i) return false;
      return true;
    }(),
    "kCodes is indexed by Code");

// Names come from files, and may be a book each: the beginning and the end say what is needed.
std::string shortened(std::string line) {
  constexpr size_t kMost = 1500, kFront = 800, kBack = 600;
  if (line.size() <= kMost) return line;
  auto is_inside_a_letter = [&](size_t at) { return (line[at] & 0xc0) == 0x80; };  // UTF-8
  size_t front = kFront, back = line.size() - kBack;
  while (is_inside_a_letter(front)) --front;
  while (is_inside_a_letter(back)) ++back;
  return fmt::format("{} ... {}", line.substr(0, front), line.substr(back));
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
  return fmt::format("{} [{}]", shortened(printable(line + text)), code_name(code));
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
