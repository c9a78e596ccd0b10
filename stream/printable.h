// SPDX-License-Identifier: Apache-2.0
// Names from files, escaped for a line on a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lowtide::stream {

// `text` with control characters, and bytes that are not UTF-8, written as \x0a: they would break the line or control
// the terminal.
std::string printable(std::string_view text);

// A long text without its middle, of at most `most` bytes (64 or more): its beginning says where it is from, and the
// end tells most.
std::string shortened(std::string_view text, size_t most);

// The end of `text`, of at most `most` bytes, from the start of a character on. The end of a long name tells most.
std::string_view end_of(std::string_view text, size_t most);

bool is_utf8(std::string_view text);

}  // namespace lowtide::stream
