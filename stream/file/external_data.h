// SPDX-License-Identifier: Apache-2.0
// The files that external data lies in: named by an untrusted model, so confined to the model's folder.
//
// A location is a relative path, component by component below the folder: not absolute, no `..`, no symbolic link on
// the way, a regular file with one name (docs/decisions/external-data.md says why hard links are refused). The kernel
// resolves it (openat2) where it can, so that nothing can be exchanged between the check and the opening.
//
// The trap: models have a thousand of such files, and a process may have fewer descriptors. A few are open at once; a
// file that is opened again must be the one it was.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "stream/file/budget.h"
#include "stream/file/file.h"
#include "stream/file/zstd_source.h"

namespace lowtide::stream {

enum class Resolver { kKernel, kWalk };  // openat2, or a walk by openat where the kernel has none

// Opens `location` below the folder that `folder` is a descriptor of. Throws Error(kUnsafePath, kNotFound).
std::shared_ptr<const Descriptor> open_below(int folder, const std::string& location,
                                             Resolver resolver = Resolver::kKernel);
// The same with symbolic links followed, as long as they stay inside the folder `root`: `folder` is the model's folder,
// relative to it. A link with an absolute target leads out.
std::shared_ptr<const Descriptor> open_within(int root, const std::string& folder, const std::string& location,
                                              Resolver resolver = Resolver::kKernel);

class ExternalFiles {
 public:
  // Descriptors that all files of one model hold together: a process that may have 64 has room for others.
  static constexpr size_t kMaxOpen = 32;

  // `follow`: the folder inside which symbolic links are followed; empty: they are refused. Throws Error(kUnsafePath)
  // where the model's folder is not inside it.
  ExternalFiles(const std::filesystem::path& folder, Spill& spill, Budget& budget, Access access = Access::kMap,
                const std::filesystem::path& follow = {});
  // The file at `location`; the same source for the same location. A file that ends in .zst is decompressed, and
  // `location`.zst stands in for a file that is not there. Throws Error.
  std::shared_ptr<Source> open(const std::string& location);
  // The file itself, never decompressed; another source each time.
  std::shared_ptr<Source> open_stored(const std::string& location);
  std::vector<std::shared_ptr<Source>> sources() const;

 private:
  class Folder;
  class File;
  std::shared_ptr<Source> open_new(const std::string& location);

  std::shared_ptr<Folder> folder_;
  Spill& spill_;
  Budget& budget_;
  Access access_;
  std::map<std::string, std::shared_ptr<Source>> files_;
};

}  // namespace lowtide::stream
