// SPDX-License-Identifier: Apache-2.0
// What the terminal can do.
#pragma once

namespace lowtide::tools {

// True where a line on stderr can be rewritten: a terminal that is not dumb (TERM), unless NO_COLOR asks for plain
// text.
bool can_rewrite_lines();

}  // namespace lowtide::tools
