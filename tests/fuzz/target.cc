// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/target.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace lowtide::fuzz {

void finding(const std::string& text) {
  fmt::print(stderr, "FINDING: {}\n", text);
  std::abort();
}

const std::filesystem::path& scratch_folder() {
  struct Folder {
    std::filesystem::path path;
    Folder() {
      std::filesystem::path shared = "/dev/shm";
      std::string name =
          (access(shared.c_str(), W_OK) == 0 ? shared : std::filesystem::temp_directory_path()) / "lowtide-fuzz-XXXXXX";
      if (mkdtemp(name.data()) == nullptr) std::abort();
      path = name;
    }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  };
  static const Folder folder;
  return folder.path;
}

}  // namespace lowtide::fuzz
