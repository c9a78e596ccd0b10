// SPDX-License-Identifier: Apache-2.0
// The help of the program and its commands, and the same as data (program_description.h).
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "tools/lowtide/program_description.h"

namespace lowtide::tools {

// An argument as help shows it: "MODEL" of "model".
std::string upper_case(std::string text);
// Whether an option takes no value. Of such a one CLI11 says that no values are expected; its type has the size of one.
bool is_flag(const CLI::Option& option);
// "lowtide convert MODEL... [OPTIONS]"
std::string usage_line(const CLI::App& app);

// Like CLI11's own, but with wrapped lines, and without ranges and relations of options.
std::shared_ptr<CLI::FormatterBase> help_formatter();
// What --help prints of the command that was given.
std::string help_of(const CLI::App& app);

ProgramDescription described_program(CLI::App& app);

}  // namespace lowtide::tools
