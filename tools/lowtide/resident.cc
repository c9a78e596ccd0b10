// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/resident.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string_view>

namespace lowtide::tools {
namespace {

// "VmRSS:      1234 kB" as bytes; 0 when the line is missing.
uint64_t field(std::string_view status, std::string_view name) {
  size_t at = status.find(name);
  if (at == std::string_view::npos) return 0;
  at = status.find_first_of("0123456789", at);
  if (at == std::string_view::npos) return 0;
  uint64_t kib = 0;
  std::from_chars(status.data() + at, status.data() + status.size(), kib);
  return kib * 1024;
}

}  // namespace

Resident resident() {
  char text[4096];
  int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  ssize_t bytes = read(file, text, sizeof text);
  close(file);
  std::string_view status(text, bytes > 0 ? static_cast<size_t>(bytes) : 0);
  Resident out = {.now = field(status, "VmRSS:"),
                  .peak = field(status, "VmHWM:"),
                  .anonymous = field(status, "RssAnon:"),
                  .data = field(status, "VmData:"),
                  .file = field(status, "RssFile:")};
  out.peak = std::max(out.peak, out.now);
  return out;
}

Resident ResidentMarks::sample() {
  Resident seen = resident();
  anonymous_ = std::max(anonymous_, seen.anonymous);
  file_ = std::max(file_, seen.file);
  return seen;
}

}  // namespace lowtide::tools
