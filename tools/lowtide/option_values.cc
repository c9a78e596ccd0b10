// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/option_values.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

CLI::Option* size(CLI::Option* option) {
  CLI::AsSizeValue with_unit(false);
  with_unit.description("");
  // CLI11 takes -5 for a very large number, and lists twenty units where one is wrong. Transforms run last to first.
  CLI::Validator shape(
      [](std::string& text) {
        const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
        const bool good = digits > 0 && text[0] != '0' && text.find_first_not_of("KMGTkmgtiBb", digits) == text.npos &&
                          text.size() - digits <= 3;
        return good ? std::string() : fmt::format("'{}' is not a size such as 64M", text);
      },
      "");
  return option->transform(with_unit)->transform(shape)->type_name("SIZE");
}

CLI::Option* file_name(CLI::Option* option) {
  CLI::Validator not_empty([](std::string& text) { return text.empty() ? "the name is empty" : std::string(); }, "");
  return option->check(not_empty)->type_name("FILE");
}
