// SPDX-License-Identifier: Apache-2.0
// JSON for files and terminals; strings in it come from untrusted files.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace lowtide::emit {

// Bytes that are not UTF-8 become U+FFFD. All control characters are escaped, also DEL and U+0080 to U+009F, which JSON
// allows but a terminal would interpret.
std::string json_text(const nlohmann::ordered_json& json);
// The same on one line.
std::string json_line(const nlohmann::ordered_json& json);
// JSON that may be inside of HTML: `<` is escaped too, so that nothing in a name ends the element or begins a comment.
std::string html_safe(std::string json);
// Appends one string in quotes, escaped in all these ways.
void append_json_string(std::string& out, std::string_view text);

}  // namespace lowtide::emit
