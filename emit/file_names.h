// SPDX-License-Identifier: Apache-2.0
// The names by which a model refers to other files: relative to its folder, and below it. Runtimes refuse others.
#pragma once

#include <filesystem>
#include <string>

namespace lowtide::emit {

class FileNames {
 public:
  // Throws Error(kNotFound) when the folder is not there.
  explicit FileNames(const std::filesystem::path& folder);
  // Throws Error(kUsage) when the file is not in the folder or below it. The last component is not resolved, even if it
  // is a link: the runtime opens the file by this name.
  std::string name(const std::filesystem::path& file) const;

 private:
  std::filesystem::path folder_;  // without links
};

}  // namespace lowtide::emit
