// SPDX-License-Identifier: Apache-2.0
// How errors are told: as text for people, or as JSON for programs, which may also follow a conversion.
#pragma once

#include <string>

namespace lowtide::tools {

struct Messages {
  bool json = false;     // --errors json
  int progress_fd = -1;  // --progress-fd; -1: not given
};

// Looks for both options before the command line is parsed, because errors of parsing are told in the same way.
Messages find_messages(int argc, const char* const* argv);

// Throws stream::Error(kUsage) where a descriptor is not open for writing.
void check_progress_fd(int fd);

// What was printed to standard output has left the process. Throws stream::Error(kIo, kNoSpace) where it cannot be
// written: before an event says that all is done.
void flush_output();
// A whole line. When the reader has closed the pipe, the process ends by SIGPIPE; other failures are ignored.
void write_event(int fd, const std::string& line);

}  // namespace lowtide::tools
