// SPDX-License-Identifier: Apache-2.0
// lowtide doctor: what of this machine decides whether a conversion can run, and how fast.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "emit/report.h"
#include "stream/error.h"
#include "stream/printable.h"
#include "tools/lowtide/commands.h"

namespace lowtide::tools {
namespace {

using stream::Code;

// A conversion of a small model needs some ten MiB; a limit below this leaves no room for a larger graph.
constexpr uint64_t kLeastMemory = uint64_t{32} << 20;
constexpr uint64_t kLeastDisk = uint64_t{100} << 20;
// Since Linux 5.14; older headers do not have it.
constexpr int kPopulateRead = 22;

struct Finding {
  std::string name, value;
  std::string problem = {};  // empty: none
  Code code = Code::kIo;     // of the problem
};

class OpenFile {
 public:
  OpenFile(const std::filesystem::path& path, int flags) : fd_(open(path.c_str(), flags | O_CLOEXEC, 0600)) {}
  ~OpenFile() {
    if (fd_ >= 0) close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

std::string first_line(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

// "MemAvailable:  123 kB" of /proc/meminfo, in bytes.
std::optional<uint64_t> memory_field(const std::string& name) {
  std::ifstream in("/proc/meminfo");
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string key;
    uint64_t kib = 0;
    if (words >> key >> kib && key == name + ":") return kib * 1024;
  }
  return std::nullopt;
}

Finding kernel() {
  utsname name{};
  if (uname(&name) != 0) return {.name = "kernel", .value = "unknown"};
  return {.name = "kernel", .value = fmt::format("{} {} {}", name.sysname, name.release, name.machine)};
}

Finding memory() {
  const auto total = memory_field("MemTotal"), available = memory_field("MemAvailable");
  if (!total || !available)
    return {.name = "memory", .value = "unknown: /proc is not mounted, and the peak of memory cannot be shown"};
  Finding out{.name = "memory",
              .value = fmt::format("{} of {} are available", emit::memory_size(*available), emit::memory_size(*total))};
  if (*available < kLeastMemory) {
    out.problem = "end other programs";
    out.code = Code::kBudget;
  }
  return out;
}

// The lowest limit of this process's cgroup and of those above it; version 2, or 1.
Finding cgroup() {
  Finding out{.name = "cgroup limit", .value = "none"};
  std::optional<uint64_t> least;
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_v2 = controllers.empty();
    if (!is_v2 && controllers != "memory") continue;
    const std::filesystem::path root = is_v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    const char* file = is_v2 ? "memory.max" : "memory.limit_in_bytes";
    std::filesystem::path group = root / std::filesystem::path(line.substr(second + 1)).relative_path();
    for (;; group = group.parent_path()) {
      std::istringstream text(first_line(group / file));
      uint64_t bytes = 0;
      // "max", or in version 1 a number near 2^63.
      if (text >> bytes && bytes < uint64_t{1} << 60 && (!least || bytes < *least)) least = bytes;
      if (group == root || group == group.root_path()) break;
    }
  }
  if (!least) return out;
  out.value = emit::memory_size(*least);
  if (*least < kLeastMemory) {
    out.problem = "allow the cgroup at least 32 MiB";
    out.code = Code::kBudget;
  }
  return out;
}

Finding limit(const char* name, int resource, const char* option, uint64_t enough, Code code) {
  rlimit now{};
  getrlimit(static_cast<__rlimit_resource_t>(resource), &now);
  Finding out{.name = name, .value = now.rlim_cur == RLIM_INFINITY ? "none" : emit::memory_size(now.rlim_cur)};
  if (now.rlim_cur < enough) {
    out.problem = fmt::format("raise it: ulimit {} unlimited", option);
    out.code = code;
  }
  return out;
}

Finding open_files() {
  rlimit now{};
  getrlimit(RLIMIT_NOFILE, &now);
  Finding out{.name = "open files", .value = std::to_string(now.rlim_cur)};
  if (now.rlim_cur < 64) out.problem = "raise it: ulimit -n 1024";
  return out;
}

std::string yes_or(bool works, const char* otherwise) { return works ? "yes" : otherwise; }

// What the file system of the folder can do, tried with two files that have no names.
void examine_folder(const std::string& folder, std::vector<Finding>& out) {
  struct statvfs disk {};
  const bool is_there = statvfs(folder.c_str(), &disk) == 0;
  const uint64_t free = is_there ? uint64_t{disk.f_bavail} * disk.f_frsize : 0;
  Finding space{.name = "disk space", .value = is_there ? emit::file_size(free) : "unknown"};
  const OpenFile first(folder, O_TMPFILE | O_RDWR), second(folder, O_TMPFILE | O_RDWR);
  const int error = errno;
  if (!is_there || (!first && error != EOPNOTSUPP && error != EISDIR)) {
    space.problem = fmt::format("the folder {} cannot be written: {}", stream::printable(folder), std::strerror(error));
    space.code = Code::kNotFound;
    out.push_back(std::move(space));
    return;
  }
  if (free < kLeastDisk) {
    space.problem = "free some, or write elsewhere with -o";
    space.code = Code::kNoSpace;
  }
  out.push_back(std::move(space));
  out.push_back({.name = "files without a name", .value = yes_or(static_cast<bool>(first), "no (O_TMPFILE)")});
  if (!first || !second) return;
  constexpr off_t kBytes = 1 << 16;
  const bool reserves = fallocate(first.fd(), 0, 0, kBytes) == 0;
  out.push_back({.name = "space is reserved",
                 .value = yes_or(reserves, "no (fallocate): a full disk is found only while writing")});
  const bool clones = ftruncate(first.fd(), kBytes) == 0 && ioctl(second.fd(), FICLONE, first.fd()) == 0;
  out.push_back({.name = "reflinks", .value = yes_or(clones, "no (FICLONE)")});
}

void examine_kernel(std::vector<Finding>& out) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  const long opened = syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof how);
  if (opened >= 0) close(static_cast<int>(opened));
  out.push_back({.name = "openat2",
                 .value = yes_or(opened >= 0, "no: external data are opened folder by folder (slower, as safe)")});
  void* page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const bool populates = page != MAP_FAILED && madvise(page, 4096, kPopulateRead) == 0;
  if (page != MAP_FAILED) munmap(page, 4096);
  out.push_back(
      {.name = "MADV_POPULATE_READ", .value = yes_or(populates, "no (Linux 5.14): mapped windows are slower")});
}

std::vector<Finding> findings(const std::string& folder) {
  std::vector<Finding> out;
  out.push_back({.name = "lowtide", .value = LOWTIDE_VERSION});
  out.push_back(kernel());
  out.push_back({.name = "processors", .value = std::to_string(std::thread::hardware_concurrency())});
  out.push_back(memory());
  out.push_back(cgroup());
  out.push_back(limit("address space", RLIMIT_AS, "-v", 4 * kLeastMemory, Code::kBudget));
  out.push_back(limit("data segment", RLIMIT_DATA, "-d", kLeastMemory, Code::kBudget));
  out.push_back(limit("file size", RLIMIT_FSIZE, "-f", kLeastDisk, Code::kNoSpace));
  out.push_back(open_files());
  examine_folder(folder, out);
  examine_kernel(out);
  return out;
}

}  // namespace

void examine_machine(const DoctorCommand& options) {
  const std::vector<Finding> all = findings(options.folder);
  std::vector<const Finding*> problems;
  for (const Finding& finding : all)
    if (!finding.problem.empty()) problems.push_back(&finding);
  if (options.json) {
    nlohmann::ordered_json out;
    out["findings"] = nlohmann::ordered_json::object();
    for (const Finding& finding : all) out["findings"][finding.name] = finding.value;
    out["problems"] = nlohmann::ordered_json::array();
    for (const Finding* finding : problems)
      out["problems"].push_back({{"name", finding->name}, {"what_to_do", finding->problem}});
    fmt::print("{}\n", out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else {
    for (const Finding& finding : all) {
      fmt::print("{:<22} {}\n", finding.name, finding.value);
      if (!finding.problem.empty()) fmt::print("{:<22} problem: {}\n", "", finding.problem);
    }
  }
  if (!problems.empty())
    throw stream::Error(problems[0]->code,
                        fmt::format("{} problem{} found; the first: {}: {}", problems.size(),
                                    problems.size() == 1 ? "" : "s", problems[0]->name, problems[0]->problem));
}

}  // namespace lowtide::tools
