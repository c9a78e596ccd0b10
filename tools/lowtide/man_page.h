// SPDX-License-Identifier: Apache-2.0
// Manual pages in the macros of man(7): lowtide(1), and lowtide-COMMAND(1) for each command.
#pragma once

#include <string>

#include "tools/lowtide/program_description.h"

namespace lowtide::tools {

std::string man_page(const ProgramDescription& program);
std::string man_page(const ProgramDescription& program, const CommandDescription& command);

}  // namespace lowtide::tools
