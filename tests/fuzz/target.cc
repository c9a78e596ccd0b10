#include "tests/fuzz/target.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace lowtide::fuzz {

void finding(const std::string& text) {
  fmt::print(stderr, "FINDING: {}\n", text);
  std::abort();
}

MemoryFile::MemoryFile(std::span<const std::byte> bytes) : number_(memfd_create("fuzz", MFD_CLOEXEC)) {
  if (number_ < 0) std::abort();
  while (!bytes.empty()) {
    ssize_t done = write(number_, bytes.data(), bytes.size());
    if (done <= 0) std::abort();
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
}
MemoryFile::~MemoryFile() { close(number_); }
std::filesystem::path MemoryFile::path() const { return fmt::format("/proc/self/fd/{}", number_); }

const std::filesystem::path& scratch_folder() {
  struct Folder {
    std::filesystem::path path;
    Folder() {
      std::filesystem::path shared = "/dev/shm";
      std::string name = (access(shared.c_str(), W_OK) == 0 ? shared : std::filesystem::temp_directory_path()) /
                         "lowtide-fuzz-XXXXXX";
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
