// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/option_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "stream/file/zstd_source.h"
#include "stream/nearest_name.h"

namespace lowtide::tools {
namespace {

// Bytes of "64M" or "0.5G": powers of 1024, with or without "iB" or "B" behind the letter. Nothing when it is no size,
// or less than a byte.
std::optional<uint64_t> bytes_of(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (error != std::errc() || text.front() == '-') return std::nullopt;
  std::string_view unit(rest, static_cast<size_t>(end - rest));
  constexpr std::string_view kUnits = "KMGT";
  const size_t power = unit.empty() ? kUnits.npos : kUnits.find(static_cast<char>(unit[0] & ~0x20));
  if (power != kUnits.npos) {
    number = std::ldexp(number, 10 * (static_cast<int>(power) + 1));
    unit.remove_prefix(1);
    if (unit.starts_with('i')) unit.remove_prefix(1);
  }
  if (unit == "B" || unit == "b") unit = {};
  constexpr double kMost = 0x1p63;
  if (!unit.empty() || !(number >= 1 && number < kMost)) return std::nullopt;
  return static_cast<uint64_t>(number);
}

CLI::Validator not_empty(const std::string& what) {
  return {[what](std::string& text) { return text.empty() ? what + " is empty" : std::string(); }, ""};
}

}  // namespace

CLI::Option* size_option(CLI::Option* option) {
  CLI::Validator to_bytes(
      [](std::string& text) {
        const std::optional<uint64_t> bytes = bytes_of(text);
        if (!bytes) return fmt::format("'{}' is not a size such as 64M or 0.5G", text);
        text = std::to_string(*bytes);
        return std::string();
      },
      "");
  return option->transform(to_bytes)->type_name("SIZE");
}

CLI::Option* file_option(CLI::Option* option) { return option->check(not_empty("the file name"))->type_name("FILE"); }

CLI::Option* name_option(CLI::Option* option) { return option->check(not_empty("the name"))->type_name("NAME"); }

CLI::Option* text_option(CLI::Option* option, const std::string& type) {
  return option->check(not_empty("the value"))->type_name(type);
}

CLI::Option* number_option(CLI::Option* option, uint64_t least, uint64_t most) {
  CLI::Validator in_range(
      [=](std::string& text) {
        uint64_t number = 0;
        const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        if (error == std::errc() && rest == text.data() + text.size() && number >= least && number <= most)
          return std::string();
        return most == UINT64_MAX ? fmt::format("'{}' is not a whole number from {} on", text, least)
                                  : fmt::format("'{}' is not a whole number from {} to {}", text, least, most);
      },
      "");
  return option->check(in_range)->type_name("N");
}

CLI::Option* choice_option(CLI::Option* option, const std::vector<std::string>& names, const std::string& type) {
  CLI::Validator known(
      [names](std::string& text) {
        if (std::find(names.begin(), names.end(), text) != names.end()) return std::string();
        return fmt::format("'{}' is not one of {}{}", text, fmt::join(names, ", "), stream::did_you_mean(text, names));
      },
      "");
  known.name(fmt::format("{}", fmt::join(names, " ")));  // where described() finds them
  return option->check(known)->type_name(type);
}

CLI::Option* repeated_option(CLI::Option* option, const std::string& type) {
  return text_option(option, type)->allow_extra_args(false);
}

// CLI11's own way to divide a text takes the next option for a name where a text has commas only.
CLI::Option* names_option(CLI::App& command, const std::string& name, std::vector<std::string>& names,
                          const std::string& description) {
  auto divide = [&names, name](const std::vector<std::string>& texts) {
    names.clear();
    for (const std::string& text : texts)
      for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find(',', begin), text.size());
        if (end == begin) throw CLI::ValidationError(name, fmt::format("'{}' has an empty name", text));
        names.push_back(text.substr(begin, end - begin));
        begin = end + 1;
      }
  };
  return repeated_option(command.add_option_function<std::vector<std::string>>(name, divide, description), "NAME,...");
}

void add_zstd_ratio(CLI::App& command, uint64_t& max_ratio) {
  number_option(command.add_option("--max-zstd-ratio", max_ratio,
                                   fmt::format("refuse .zst input that decompresses to more than N times its size "
                                               "(default: {}; 0: no limit)",
                                               stream::kMaxZstdRatio)),
                0, UINT64_MAX)
      ->group(kResourceOptions);
}

void add_follow_links(CLI::App& command, std::string& folder) {
  file_option(command.add_option("--follow-links", folder,
                                 "follow symbolic links of external data, as long as they stay inside this folder"))
      ->type_name("DIR");
}

// What it means is found by find_messages(), which also sees command lines that cannot be parsed.
void add_errors_option(CLI::App& command) {
  choice_option(command.add_option_function<std::string>(
                    "--errors", [](const std::string&) {}, "how errors are printed: text (the default) or json"),
                {"text", "json"}, "FORM")
      ->group(kMessageOptions);
}

}  // namespace lowtide::tools
