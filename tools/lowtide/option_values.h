// SPDX-License-Identifier: Apache-2.0
// Kinds of values that options take: each function checks an option's value and names its kind in help texts. For
// command_line.cc only.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace lowtide::tools {

// Bytes, given as "64M" or "0.5G" (powers of 1024).
CLI::Option* size_option(CLI::Option* option);
// A name that is not empty, as an unset variable of a script would make it.
CLI::Option* file_option(CLI::Option* option);
// The same for a name of something else.
CLI::Option* name_option(CLI::Option* option);
// The same for any other text.
CLI::Option* text_option(CLI::Option* option, const std::string& type);
CLI::Option* number_option(CLI::Option* option, uint64_t least, uint64_t most);
CLI::Option* choice_option(CLI::Option* option, const std::vector<std::string>& names, const std::string& type);
// One value each time that it is given, not empty.
CLI::Option* repeated_option(CLI::Option* option, const std::string& type);
// Names with commas between them; may be repeated.
CLI::Option* names_option(CLI::App& command, const std::string& name, std::vector<std::string>& names,
                          const std::string& description);

// Groups of options in help texts.
inline constexpr const char* kWeightOptions = "Weights";
inline constexpr const char* kCustomOptions = "Custom operators";
inline constexpr const char* kResourceOptions = "Limits";
inline constexpr const char* kMessageOptions = "Messages";

void add_zstd_ratio(CLI::App& command, uint64_t& max_ratio);
void add_follow_links(CLI::App& command, std::string& folder);
// --errors. What it means is found by find_messages(), which also sees command lines that cannot be parsed.
void add_errors_option(CLI::App& command);

}  // namespace lowtide::tools
