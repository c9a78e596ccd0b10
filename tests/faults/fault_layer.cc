// SPDX-License-Identifier: Apache-2.0
// An LD_PRELOAD library for tests: counts the program's calls on files of one folder, and makes one of them fail.
// test_every_call.py says how it is used.
//
//     FAULT_FOLDER=/path   calls on files below it are counted, from 1
//     FAULT_LOG=/path      a line for each: number, call, file
//     FAULT=12:EIO         the 12th call fails with this error; 12+:EIO every call that writes from then on, too
//     FAULT=12:short       it transfers a part of the bytes
//     FAULT=12:kill        the process is killed before it
//     FAULT=12:truncate    the file FAULT_TARGET is cut to half before it; touch: gets another time; append: gets
//     longer;
//                          replace: is another file of the same bytes
//     FAULT=12:shrink      the same cut behind the 12th call: pages that it has mapped are gone
//
// This code replaces the calls that it would need itself, so it uses syscall().
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>

namespace {

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

using Syscall = long (*)(long, ...);
long raw(long number, auto... arguments) {
  static const auto call = next<Syscall>("syscall");
  return call(number, arguments...);
}

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

struct Plan {
  std::string folder{environment("FAULT_FOLDER")}, target{environment("FAULT_TARGET")}, what;
  long at = -1;
  bool on_and_on = false;
  int log = -1;

  Plan() {
    const std::string fault{environment("FAULT")};
    if (const size_t colon = fault.find(':'); colon != fault.npos) {
      at = std::atol(fault.c_str());
      on_and_on = fault[colon - 1] == '+';
      what = fault.substr(colon + 1);
    }
    const std::string path{environment("FAULT_LOG")};
    if (path.empty()) return;
    // A descriptor number that the program does not get.
    const long number = raw(SYS_openat, AT_FDCWD, path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    log = static_cast<int>(raw(SYS_fcntl, number, F_DUPFD_CLOEXEC, 900));
    raw(SYS_close, number);
  }
};
const Plan& plan() {
  static const Plan the_plan;
  return the_plan;
}

int error_number(std::string_view name) {
  if (name == "EIO") return EIO;
  if (name == "ENOSPC") return ENOSPC;
  if (name == "EINTR") return EINTR;
  return 0;
}

void change_target() {
  const char* path = plan().target.c_str();
  struct stat info = {};
  raw(SYS_newfstatat, AT_FDCWD, path, &info, 0);
  if (plan().what == "truncate" || plan().what == "shrink") raw(SYS_truncate, path, info.st_size / 2);
  if (plan().what == "touch") {
    const timespec times[2] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
    raw(SYS_utimensat, AT_FDCWD, path, times, 0);
  }
  if (plan().what == "append") raw(SYS_truncate, path, info.st_size + 4096);
  if (plan().what == "replace") {  // with the file that was made ready for it
    raw(SYS_renameat2, AT_FDCWD, (plan().target + ".other").c_str(), AT_FDCWD, path, 0);
  }
}

bool writes(std::string_view call) {
  return call == "create" || call == "write" || call == "pwrite" || call == "fallocate" || call == "ftruncate";
}

enum class Outcome { kGoOn, kFail, kShort, kThenShrink };

// Counts a call and returns its fault; sets errno when it must fail.
Outcome judge(const char* call, std::string_view path) {
  static std::atomic<long> count = 0;
  const Plan& p = plan();
  if (p.folder.empty() || !path.starts_with(p.folder)) return Outcome::kGoOn;
  const long number = ++count;
  if (p.log >= 0) {
    char line[PATH_MAX + 100];
    const int bytes =
        std::snprintf(line, sizeof line, "%ld\t%s\t%.*s\n", number, call, static_cast<int>(path.size()), path.data());
    raw(SYS_write, p.log, line, std::min<long>(bytes, sizeof line));
  }
  const bool is_later = p.on_and_on && number > p.at && writes(call);
  if (number != p.at && !is_later) return Outcome::kGoOn;
  if (p.what == "kill") raw(SYS_kill, getpid(), SIGKILL);
  if (p.what == "short") return Outcome::kShort;
  if (p.what == "shrink") return Outcome::kThenShrink;
  if (const int error = error_number(p.what)) {
    errno = error;
    return Outcome::kFail;
  }
  change_target();
  return Outcome::kGoOn;
}

Outcome judge(const char* call, int descriptor) {
  const int before = errno;
  char link[64], path[PATH_MAX];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const long bytes = raw(SYS_readlinkat, AT_FDCWD, link, path, sizeof path);
  errno = before;
  return judge(call, std::string_view(path, static_cast<size_t>(std::max(bytes, 0L))));
}

std::string absolute(const char* path) {
  if (*path == '/') return path;
  char folder[PATH_MAX];
  const long bytes = raw(SYS_getcwd, folder, sizeof folder);  // with its zero
  return bytes <= 0 ? path : std::string(folder) + "/" + path;
}

// For a call that transfers bytes: about half of them, at least one.
size_t part(size_t bytes) { return std::max<size_t>(bytes / 2, std::min<size_t>(bytes, 1)); }

template <typename Call>
auto moved(const char* name, int descriptor, size_t bytes, Call&& call) -> decltype(call(bytes)) {
  switch (judge(name, descriptor)) {
    case Outcome::kFail:
      return -1;
    case Outcome::kShort:
      return call(part(bytes));
    default:
      return call(bytes);
  }
}

int opened(const char* name, const char* path, int flags, mode_t mode, int folder) {
  const std::string full = folder == AT_FDCWD ? absolute(path) : std::string();
  const char* call = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? "create" : name;
  if ((folder == AT_FDCWD ? judge(call, full) : judge(call, folder)) == Outcome::kFail) return -1;
  return static_cast<int>(raw(SYS_openat, folder, path, flags, mode));
}

mode_t mode_of(int flags, va_list list) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(list, mode_t) : 0;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return opened("open", path, flags, mode, AT_FDCWD);
}

int openat(int folder, const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return opened("openat", path, flags, mode, folder);
}

long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& argument : a) argument = va_arg(list, long);
  va_end(list);
  if (number == SYS_openat2 && judge("openat2", static_cast<int>(a[0])) == Outcome::kFail) return -1;
  return raw(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

ssize_t read(int descriptor, void* to, size_t bytes) {
  return moved("read", descriptor, bytes, [&](size_t n) -> ssize_t { return raw(SYS_read, descriptor, to, n); });
}

ssize_t pread(int descriptor, void* to, size_t bytes, off_t offset) {
  return moved("pread", descriptor, bytes,
               [&](size_t n) -> ssize_t { return raw(SYS_pread64, descriptor, to, n, offset); });
}

void* mmap(void* address, size_t bytes, int protection, int flags, int descriptor, off_t offset) noexcept {
  const Outcome outcome = descriptor >= 0 ? judge("mmap", descriptor) : Outcome::kGoOn;
  if (outcome == Outcome::kFail) return MAP_FAILED;
  void* pages = reinterpret_cast<void*>(raw(SYS_mmap, address, bytes, protection, flags, descriptor, offset));
  if (descriptor < 0 || pages == MAP_FAILED) return pages;
  if (outcome == Outcome::kThenShrink) change_target();
  return pages;
}

ssize_t write(int descriptor, const void* from, size_t bytes) {
  return moved("write", descriptor, bytes, [&](size_t n) -> ssize_t { return raw(SYS_write, descriptor, from, n); });
}

ssize_t pwrite(int descriptor, const void* from, size_t bytes, off_t offset) {
  return moved("pwrite", descriptor, bytes,
               [&](size_t n) -> ssize_t { return raw(SYS_pwrite64, descriptor, from, n, offset); });
}

int fallocate(int descriptor, int mode, off_t offset, off_t bytes) {
  if (judge("fallocate", descriptor) == Outcome::kFail) return -1;
  return static_cast<int>(raw(SYS_fallocate, descriptor, mode, offset, bytes));
}

int ftruncate(int descriptor, off_t bytes) noexcept {
  if (judge("ftruncate", descriptor) == Outcome::kFail) return -1;
  return static_cast<int>(raw(SYS_ftruncate, descriptor, bytes));
}

int fsync(int descriptor) {
  if (judge("fsync", descriptor) == Outcome::kFail) return -1;
  return static_cast<int>(raw(SYS_fsync, descriptor));
}

int fdatasync(int descriptor) {
  if (judge("fdatasync", descriptor) == Outcome::kFail) return -1;
  return static_cast<int>(raw(SYS_fdatasync, descriptor));
}

int fstat(int descriptor, struct stat* info) noexcept {
  if (judge("fstat", descriptor) == Outcome::kFail) return -1;
  return static_cast<int>(raw(SYS_fstat, descriptor, info));
}

int sync_file_range(int descriptor, off64_t offset, off64_t bytes, unsigned flags) {
  if (judge("sync_file_range", descriptor) == Outcome::kFail) return -1;
  return static_cast<int>(raw(SYS_sync_file_range, descriptor, offset, bytes, flags));
}

// A close that fails still closes the file, as in Linux.
int close(int descriptor) {
  const Outcome outcome = judge("close", descriptor);
  const int error = errno;
  const auto result = static_cast<int>(raw(SYS_close, descriptor));
  if (outcome != Outcome::kFail) return result;
  errno = error;
  return -1;
}

int rename(const char* from, const char* to) noexcept {
  if (judge("rename", absolute(to)) == Outcome::kFail) return -1;
  return static_cast<int>(raw(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

}  // extern "C"
