// SPDX-License-Identifier: Apache-2.0
#include "emit/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace lowtide::emit {
namespace {

std::string escaped_json(const nlohmann::ordered_json& json, int indent) {
  const std::string text = json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::string out;
  out.reserve(text.size() + 1);
  // Such characters occur inside strings only.
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (byte == 0x7f) {
      out += "\\u007f";
    } else if (byte == 0xc2 && next < 0xa0) {
      out += fmt::format("\\u{:04x}", next);
      ++i;
    } else {
      out += text[i];
    }
  }
  return out + "\n";
}

}  // namespace

std::string json_text(const nlohmann::ordered_json& json) { return escaped_json(json, 2); }
std::string json_line(const nlohmann::ordered_json& json) { return escaped_json(json, -1); }

std::string html_safe(std::string json) {
  for (size_t at = 0; (at = json.find('<', at)) != json.npos;) json.replace(at, 1, "\\u003c");
  return json;
}

void append_json_string(std::string& out, std::string_view text) {
  const bool is_plain = std::all_of(text.begin(), text.end(), [](char letter) {
    return letter >= ' ' && letter <= '~' && letter != '"' && letter != '\\' && letter != '<';
  });
  if (is_plain) {
    out += '"';
    out += text;
    out += '"';
    return;
  }
  std::string escaped = html_safe(json_line(text));
  escaped.pop_back();  // the end of the line
  out += escaped;
}

}  // namespace lowtide::emit
