// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/messages.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <string_view>

#include "stream/file/system_call.h"
#include "tools/lowtide/command_line.h"

namespace lowtide::tools {

Messages find_messages(int argc, const char* const* argv) {
  Messages out;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--") break;
    for (std::string_view name : {"--errors", "--progress-fd"}) {
      std::string_view value;
      if (argument == name && i + 1 < argc) value = argv[i + 1];
      if (argument.starts_with(name) && argument.substr(name.size()).starts_with('='))
        value = argument.substr(name.size() + 1);
      if (name == "--errors" && !value.empty()) out.json = value == "json";
      if (name == "--progress-fd") std::from_chars(value.data(), value.data() + value.size(), out.progress_fd);
    }
  }
  const int mode = out.progress_fd < 0 ? -1 : fcntl(out.progress_fd, F_GETFL);
  if (mode < 0 || (mode & O_ACCMODE) == O_RDONLY) out.progress_fd = -1;  // parsing says so
  return out;
}

void check_progress_fd(int fd) {
  const int mode = fcntl(fd, F_GETFL);
  if (mode < 0 || (mode & O_ACCMODE) == O_RDONLY)
    usage_error(fmt::format("--progress-fd: descriptor {} is not open for writing", fd));
}

void flush_output() {
  if (std::fflush(stdout) != 0) throw stream::unwritable_output(errno);
}

void write_event(int fd, const std::string& line) {
  for (std::string_view rest = line; !rest.empty();) {
    const ssize_t written = write(fd, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    rest.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace lowtide::tools
