// SPDX-License-Identifier: Apache-2.0
// Counts in messages.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace lowtide::stream {

// "1 byte", "2 bytes". For nouns whose plural ends in -s.
inline std::string counted(uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}
// The same as a subject: "1 byte is", "2 bytes are".
inline std::string counted_are(uint64_t count, std::string_view noun) {
  return fmt::format("{} {}", counted(count, noun), count == 1 ? "is" : "are");
}

}  // namespace lowtide::stream
