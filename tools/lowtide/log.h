// SPDX-License-Identifier: Apache-2.0
// Log lines, by spdlog: what is done, at the levels debug (passes), info (files), warning (what deserves a look) and
// error. --verbose prints those below error to stderr, --log FILE appends all of them to a file. Neither: none. What a
// command prints as its result, and an error's one line on stderr, are not log lines.
#pragma once

#include <string>

namespace lowtide::tools {

// Before the first log line. Throws stream::Error(kNotFound, kUnsafePath) where the file cannot be opened for
// appending, and Error(kUsage) where it exists and is no log.
void start_log(bool verbose, const std::string& file);

// Into the file alone: stderr has it already. Without an end of line.
void log_error(const std::string& text);

}  // namespace lowtide::tools
