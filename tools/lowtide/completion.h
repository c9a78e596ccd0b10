// SPDX-License-Identifier: Apache-2.0
// Completion scripts of three shells: commands, options, choices, file names. They need no other package.
#pragma once

#include <string>

#include "tools/lowtide/program_description.h"

namespace lowtide::tools {

std::string bash_completion(const ProgramDescription& program);
std::string zsh_completion(const ProgramDescription& program);
std::string fish_completion(const ProgramDescription& program);

}  // namespace lowtide::tools
