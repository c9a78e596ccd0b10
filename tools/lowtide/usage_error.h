// SPDX-License-Identifier: Apache-2.0
// The error of a command line that is wrong: its text says which argument, and what would be right.
#pragma once

#include <string>
#include <utility>

#include "stream/error.h"

namespace lowtide::tools {

// Throws stream::Error(kUsage).
[[noreturn]] inline void usage_error(std::string text) { throw stream::Error(stream::Code::kUsage, std::move(text)); }

}  // namespace lowtide::tools
