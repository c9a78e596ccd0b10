// SPDX-License-Identifier: Apache-2.0
#include "stream/file/temporary.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>
#include <random>
#include <string_view>
#include <utility>

#include "stream/error.h"
#include "stream/file/file.h"
#include "stream/file/system_call.h"

namespace lowtide::stream {
namespace {

namespace fs = std::filesystem;

// The temporaries that exist now. Global because a signal handler is given nothing to find them by, and of fixed size
// because it must not allocate. A temporary beyond the table is still removed by its destructor.
struct TemporarySlot {
  enum State : int { kFree, kTaken, kReady };
  std::atomic<int> state = kFree;
  char path[PATH_MAX];
};
std::array<TemporarySlot, 16> slots;

int remember(const std::string& path) {
  if (path.size() >= PATH_MAX) return -1;
  for (size_t i = 0; i < slots.size(); ++i) {
    int expected = TemporarySlot::kFree;
    if (!slots[i].state.compare_exchange_strong(expected, TemporarySlot::kTaken)) continue;
    std::memcpy(slots[i].path, path.c_str(), path.size() + 1);
    slots[i].state = TemporarySlot::kReady;
    return static_cast<int>(i);
  }
  return -1;
}

void forget(int slot) {
  if (slot >= 0) slots[static_cast<size_t>(slot)].state = TemporarySlot::kFree;
}

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

bool is_system_folder(const fs::path& folder) {
  struct statfs system = {};
  return same_file(folder, "/dev") || (statfs(folder.c_str(), &system) == 0 &&
                                       system.f_type == static_cast<decltype(system.f_type)>(PROC_SUPER_MAGIC));
}

// A temporary is called PREFIX, the process, '-', eight hexadecimal digits.
constexpr std::string_view kDigits = "0123456789", kHexadecimals = "0123456789abcdef";
constexpr size_t kRandomDigits = 8;
constexpr size_t kMostDigits = 10 + 1 + kRandomDigits;

// Of a long name the front alone: then several outputs share the names of their temporaries, which is no harm.
std::string prefix_of(const fs::path& output) {
  constexpr std::string_view kMark = ".lowtide-";
  std::string name = output.filename().string();
  size_t most = NAME_MAX - 1 - kMark.size() - kMostDigits;
  auto is_inside_a_letter = [&](size_t at) { return at < name.size() && (name[at] & 0xc0) == 0x80; };  // UTF-8
  while (most > 0 && is_inside_a_letter(most)) --most;
  return fmt::format(".{}{}", name.substr(0, most), kMark);
}

bool is_temporary(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  const size_t dash = name.find('-');
  return dash != name.npos && dash > 0 && name.find_first_not_of(kDigits) == dash &&
         name.size() - dash - 1 == kRandomDigits && name.find_first_not_of(kHexadecimals, dash + 1) == name.npos;
}

// False where another process has the lock, and where the file system has no locks: then no file is known to be
// abandoned.
bool lock(int descriptor) {
  return uninterrupted([&] { return flock(descriptor, LOCK_EX | LOCK_NB); }) == 0;
}

void remove_if_dead(int folder, const char* name) {
  // Whatever else has such a name, a link to somewhere perhaps, is not ours.
  struct stat info = {};
  if (fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) return;
  const int number = openat(folder, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (number < 0) return;
  const Descriptor file(number);
  if (lock(number)) unlinkat(folder, name, 0);
}

bool is_in_use(int folder, const char* name) {
  const int number = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (number < 0) return false;
  const Descriptor file(number);
  struct stat info = {};
  if (fstat(number, &info) != 0 || !S_ISREG(info.st_mode)) return false;
  return !lock(number) && errno == EWOULDBLOCK;
}

// Calls visit(descriptor of the folder, name) for each temporary in it, as long as that is true.
template <typename Visit>
void visit_temporaries(const fs::path& folder, const std::string& prefix, const Visit& visit) {
  struct Close {
    void operator()(DIR* dir) const { closedir(dir); }
  };
  const std::unique_ptr<DIR, Close> dir(opendir(folder.c_str()));
  if (dir == nullptr) return;  // a folder may be writable and not readable
  while (const dirent* entry = readdir(dir.get()))
    if (is_temporary(entry->d_name, prefix) && !visit(dirfd(dir.get()), entry->d_name)) return;
}

}  // namespace

void remove_temporaries() noexcept {
  for (TemporarySlot& slot : slots)
    if (slot.state == TemporarySlot::kReady) unlink(slot.path);
}

std::optional<fs::path> system_folder(fs::path path) {
  constexpr int kMostLinks = 40;  // as the kernel
  for (int links = 0; links <= kMostLinks; ++links) {
    const fs::path folder = folder_of(path);
    if (is_system_folder(folder)) return folder;
    std::error_code not_a_link;
    const fs::path target = fs::read_symlink(path, not_a_link);
    if (not_a_link) break;
    path = folder / target;
  }
  return std::nullopt;
}

Error creation_error(const fs::path& path, int error) {
  const fs::path folder = folder_of(path);
  std::error_code none;
  const bool is_missing = error == ENOENT && !fs::exists(folder, none);
  return {is_no_space(error) ? Code::kNoSpace : opening_code(error),
          is_missing ? fmt::format("the folder '{}' does not exist", folder.string())
                     : fmt::format("cannot create a file in '{}': {}", folder.string(), std::strerror(error)),
          {.file = path.string()}};
}

Temporary::Temporary(const fs::path& output) : output_(output) {
  if (const auto folder = system_folder(output))
    throw Error(Code::kUnsafePath,
                fmt::format("no output is written to {}; for standard output use -o -", folder->string()),
                {.file = output.string()});
  const std::string prefix = prefix_of(output);
  visit_temporaries(folder_of(output), prefix, [](int folder, const char* name) {
    remove_if_dead(folder, name);
    return true;
  });
  std::random_device random;
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i)
    if (create(fmt::format("{}{}-{:08x}", prefix, getpid(), random()))) return;
  throw Error(Code::kIo, "no free temporary name in the folder", {.file = output_.string()});
}

Temporary::~Temporary() { discard(); }

// False: the name was taken, or the file was taken away before it was locked.
bool Temporary::create(const std::string& name) {
  path_ = folder_of(output_) / name;
  // The slot comes first: a signal between the two calls then unlinks a name that does not exist yet, or the file.
  slot_ = remember(fs::absolute(path_).string());
  descriptor_ =
      uninterrupted([&] { return open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666); });
  const int error = errno;
  if (descriptor_ < 0) {
    forget(std::exchange(slot_, -1));
    path_.clear();  // it is not ours to remove
    if (error == EEXIST) return false;
    throw creation_error(output_, error);
  }
  const bool locked = lock(descriptor_) || errno != EWOULDBLOCK;  // or there are no locks here
  struct stat info = {};
  if (locked && fstat(descriptor_, &info) == 0 && info.st_nlink > 0) return true;
  discard();
  return false;
}

bool Temporary::is_alone() const {
  bool alone = true;
  const std::string own = path_.filename().string();
  visit_temporaries(folder_of(output_), prefix_of(output_), [&](int folder, const char* name) {
    alone = name == own || !is_in_use(folder, name);
    return alone;
  });
  return alone;
}

int Temporary::close() {
  // The second descriptor of the same open file keeps the lock.
  lock_ = fcntl(descriptor_, F_DUPFD_CLOEXEC, 0);
  const int result = ::close(std::exchange(descriptor_, -1));
  return result != 0 && errno != EINTR ? errno : 0;
}

int Temporary::rename() {
  if (::rename(path_.c_str(), output_.c_str()) != 0) return errno;
  path_.clear();
  discard();
  return 0;
}

void Temporary::discard() noexcept {
  // Unlinked while it is locked, so that no other process takes it for abandoned.
  if (!path_.empty()) unlink(path_.c_str());
  path_.clear();
  forget(std::exchange(slot_, -1));
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  if (lock_ >= 0) ::close(std::exchange(lock_, -1));
}

}  // namespace lowtide::stream
