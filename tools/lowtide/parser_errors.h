// SPDX-License-Identifier: Apache-2.0
// What is wrong with a command line, in words that say what would be right. All throw Error(kUsage).
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace lowtide::tools {

// "-v", "--verbose"; not "-", which is standard input, nor "--".
bool is_option(const std::string& argument);

// `arguments` begin with one of the commands, with the hidden one, or with an option of the program.
void check_command_name(const std::vector<std::string>& commands, const std::string& hidden,
                        const std::vector<std::string>& arguments);
// No "-verbose", which CLI11 would take for -v and others.
void check_dashes(const std::vector<std::string>& arguments, const CLI::App& command);
// No "--quiet=no", which CLI11 would take for a value of the flag.
void check_flags(const std::vector<std::string>& arguments, const CLI::App& command);
// What the parser found, in the program's own words.
[[noreturn]] void explain(const CLI::App& app, const CLI::ParseError& error);

}  // namespace lowtide::tools
