// SPDX-License-Identifier: Apache-2.0
#include "emit/file_names.h"

#include <fmt/format.h>

#include "stream/error.h"

namespace lowtide::emit {
namespace {

// A folder's path without links, for comparison.
std::filesystem::path resolved(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::path out = std::filesystem::canonical(folder.empty() ? std::filesystem::path(".") : folder, error);
  if (error)
    throw stream::Error(stream::Code::kNotFound, fmt::format("cannot be opened: {}", error.message()),
                        {.file = folder.string()});
  return out;
}

}  // namespace

FileNames::FileNames(const std::filesystem::path& folder) : folder_(resolved(folder)) {}

std::string FileNames::name(const std::filesystem::path& path) const {
  const std::filesystem::path file = resolved(path.parent_path()) / path.filename();
  const std::filesystem::path below = file.lexically_relative(folder_);
  if (below.empty() || *below.begin() == "..")
    throw stream::Error(stream::Code::kUsage, fmt::format("with --weights in-place the output must be in the folder "
                                                          "of {} or above it: choose an output path in {} with -o",
                                                          file.string(), file.parent_path().string()));
  return below.string();
}

}  // namespace lowtide::emit
