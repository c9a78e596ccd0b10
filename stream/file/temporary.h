// SPDX-License-Identifier: Apache-2.0
// The file that an output is made in, under a temporary name beside it: removed whatever happens, but for a SIGKILL;
// and what that left is removed by the next Temporary for the same output.
//
// The traps: another conversion to the same output may be at work, here or in another process, and its number (PID) may
// be that of a process that has ended. So a temporary is locked (flock) as long as it is in use: the system releases
// the lock when the process ends, and only a temporary that is not locked is removed. Between its creation and its lock
// another process may remove it: so it is looked at once more under the lock, and made again if it has gone.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "stream/error.h"

namespace lowtide::stream {

class Temporary {
 public:
  // Created with O_EXCL | O_NOFOLLOW in the folder of `output`. Throws Error(kUnsafePath) for an output in a system
  // folder, and creation_error().
  explicit Temporary(const std::filesystem::path& output);
  ~Temporary();
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  // Whether there is no other temporary in use for the same output, here or in another process. Of several that ask at
  // most one is alone. Without locks, or in a folder that cannot be listed, no other one is found.
  bool is_alone() const;
  // Closes the file for writing; the lock stays. 0, or an errno: network file systems report failed writes here.
  int close();
  // Puts it in the place of the output, for good. 0, or an errno.
  int rename();

 private:
  bool create(const std::string& name);
  void discard() noexcept;

  std::filesystem::path output_, path_;
  int descriptor_ = -1, lock_ = -1;
  int slot_ = -1;  // in the table of remove_temporaries()
};

// The folder /dev, or one of /proc, that a file is in, or a link of that name leads to. A rename would put the output
// in the place of /dev/stdout, which is a link to an open file.
std::optional<std::filesystem::path> system_folder(std::filesystem::path path);

// Why a file could not be made at `path`: Error(kNotFound, kNoSpace, kIo) with the system's reason.
Error creation_error(const std::filesystem::path& path, int error);

// Unlinks the temporaries that exist in this process. Async-signal-safe: for handlers of SIGINT and SIGTERM.
void remove_temporaries() noexcept;

}  // namespace lowtide::stream
