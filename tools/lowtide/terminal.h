// SPDX-License-Identifier: Apache-2.0
// Capabilities of the terminal.
#pragma once

namespace lowtide::tools {

// True where a line on stderr can be rewritten: a terminal that is not dumb (TERM), unless NO_COLOR asks for plain
// text.
bool can_rewrite_lines();

}  // namespace lowtide::tools
