// SPDX-License-Identifier: Apache-2.0
#include "stream/file/temporary_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>

#include "stream/error.h"
#include "stream/file/temporary.h"

namespace lowtide::stream {
namespace {

namespace fs = std::filesystem;

// Global, and of fixed size, for signal handlers. A process makes one such folder at a time; another one is still
// removed by its destructor.
enum State : int { kFree, kTaken, kReady };
std::atomic<int> folder_state = kFree;
char folder_path[PATH_MAX];

// A record of getdents64, which readdir() would allocate memory for.
struct Entry {
  uint64_t inode;
  int64_t next;
  unsigned short length;
  unsigned char type;
  char name[1];
};

// Everything in an open folder; folders in it are removed when they are empty or have `deeper` levels below them.
void remove_contents(int folder, int deeper) noexcept {
  alignas(Entry) char records[4096];
  // Removing changes the folder: it is read again from the start until nothing more goes away.
  for (bool removed = true; removed;) {
    removed = false;
    if (lseek(folder, 0, SEEK_SET) < 0) return;
    for (long bytes; (bytes = syscall(SYS_getdents64, folder, records, sizeof records)) > 0;)
      for (long at = 0; at < bytes;) {
        unsigned short length = 0;
        std::memcpy(&length, records + at + offsetof(Entry, length), sizeof length);
        const char* name = records + at + offsetof(Entry, name);
        at += length;
        if (std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0) continue;
        if (unlinkat(folder, name, 0) == 0) {
          removed = true;
          continue;
        }
        if (deeper == 0) continue;
        const int inner = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (inner < 0) continue;
        remove_contents(inner, deeper - 1);
        close(inner);
        removed = unlinkat(folder, name, AT_REMOVEDIR) == 0 || removed;
      }
  }
}

[[noreturn]] void fail_at_folder(const fs::path& path, const char* doing, int error) {
  const Code code = error == ENOENT || error == ENOTDIR  ? Code::kNotFound
                    : error == ENOSPC || error == EDQUOT ? Code::kNoSpace
                                                         : Code::kIo;
  throw Error(code, fmt::format("the folder cannot be {}: {}", doing, std::strerror(error)), {.file = path.string()});
}

// "out/" names the same folder as "out".
fs::path without_slash(const fs::path& path) { return path.has_filename() ? path : path.parent_path(); }

}  // namespace

void check_folder_is_free(const fs::path& output) {
  const fs::path path = without_slash(output);
  if (path.filename().empty() || path.filename() == "." || path.filename() == "..")
    throw Error(Code::kUsage, "the output needs a name of its own", {.file = output.string()});
  if (const auto folder = system_folder(path))
    throw Error(Code::kUnsafePath, fmt::format("no output is written to {}", folder->string()),
                {.file = output.string()});
  std::error_code none;
  if (path.has_parent_path() && !fs::exists(path.parent_path(), none)) throw creation_error(path, ENOENT);
  const fs::file_status status = fs::symlink_status(path, none);
  if (status.type() == fs::file_type::not_found) return;
  if (status.type() == fs::file_type::directory && fs::is_empty(path, none) && !none) return;
  throw Error(Code::kUsage,
              fs::is_directory(status) ? "the folder is not empty: remove it, or give another name with -o"
                                       : "something that is no folder is there: give another name with -o",
              {.file = output.string()});
}

TemporaryFolder::TemporaryFolder(const fs::path& output) : output_(without_slash(output)) {
  check_folder_is_free(output);
  constexpr int kTries = 100;
  constexpr size_t kMostName = 200;
  std::random_device random;
  const std::string name = output_.filename().string();
  for (int i = 0; i < kTries; ++i) {
    path_ = output_.parent_path() / fmt::format(".{}.lowtide-{}-{:08x}", name.substr(0, kMostName), getpid(), random());
    int expected = kFree;
    const std::string text = path_.string();
    const bool listed = text.size() < PATH_MAX && folder_state.compare_exchange_strong(expected, kTaken);
    if (listed) std::memcpy(folder_path, text.c_str(), text.size() + 1);
    if (mkdir(path_.c_str(), 0777) == 0) {
      if (listed) folder_state = kReady;
      return;
    }
    const int error = errno;
    if (listed) folder_state = kFree;
    if (error != EEXIST) fail_at_folder(output, "made", error);
  }
  fail_at_folder(output, "made", EEXIST);
}

TemporaryFolder::~TemporaryFolder() {
  if (path_.empty()) return;
  std::error_code none;
  fs::remove_all(path_, none);
  if (folder_state == kReady && path_ == folder_path) folder_state = kFree;
}

void TemporaryFolder::rename() {
  if (::rename(path_.c_str(), output_.c_str()) != 0) fail_at_folder(output_, "given its name", errno);
  if (folder_state == kReady && path_ == folder_path) folder_state = kFree;
  path_.clear();
}

void remove_temporary_folder() noexcept {
  if (folder_state != kReady) return;
  const int folder = open(folder_path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return;
  constexpr int kDeep = 8;
  remove_contents(folder, kDeep);
  close(folder);
  rmdir(folder_path);
}

}  // namespace lowtide::stream
