// SPDX-License-Identifier: Apache-2.0
// The folder that an output folder is made in, under a temporary name beside it: the output appears whole or not at
// all.
#pragma once

#include <filesystem>

namespace lowtide::stream {

class TemporaryFolder {
 public:
  // Created beside `output`, which does not exist or is an empty folder. Throws Error(kUsage) where something else is
  // there, Error(kNotFound, kNoSpace, kIo).
  explicit TemporaryFolder(const std::filesystem::path& output);
  ~TemporaryFolder();  // removes the folder and everything in it, unless it was renamed
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Puts it in the place of the output, for good. Throws Error(kIo).
  void rename();

 private:
  std::filesystem::path output_, path_;
};

// Throws as the constructor of TemporaryFolder does: before anything is done for an output that cannot be written.
void check_folder_is_free(const std::filesystem::path& output);

// Removes the temporary folder that exists in this process and what is in it, eight folders deep.
// Async-signal-safe, after remove_temporaries().
void remove_temporary_folder() noexcept;

}  // namespace lowtide::stream
