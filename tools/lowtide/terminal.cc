// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/terminal.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace lowtide::tools {

bool can_rewrite_lines() {
  auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string_view(value == nullptr ? "" : value);
  };
  const std::string_view terminal = variable("TERM");
  return isatty(STDERR_FILENO) == 1 && !terminal.empty() && terminal != "dumb" && variable("NO_COLOR").empty();
}

}  // namespace lowtide::tools
