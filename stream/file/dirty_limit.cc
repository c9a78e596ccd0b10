// SPDX-License-Identifier: Apache-2.0
#include "stream/file/dirty_limit.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

namespace lowtide::stream {
namespace {

std::optional<uint64_t> number_in(const std::string& path) {
  uint64_t number = 0;
  if (std::ifstream file(path); file >> number) return number;
  return std::nullopt;
}

// Free, and used by the page cache. Nothing when /proc does not say.
std::optional<uint64_t> page_cache_bytes() {
  std::ifstream file("/proc/meminfo");
  uint64_t kib = 0, sum = 0;
  for (std::string name; file >> name;) {
    if (file >> kib && (name == "MemFree:" || name == "Active(file):" || name == "Inactive(file):")) sum += kib;
    file.clear();
    file.ignore(1000, '\n');
  }
  return sum == 0 ? std::nullopt : std::optional(sum * 1024);
}

// The lowest limit of this process's cgroups (version 2); no limit: UINT64_MAX.
uint64_t cgroup_limit() {
  uint64_t limit = UINT64_MAX;
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("0::/")) continue;
    for (std::string path = line.substr(3); !path.empty(); path.erase(path.rfind('/')))
      limit = std::min(limit, number_in("/sys/fs/cgroup" + path + "/memory.max").value_or(UINT64_MAX));
  }
  return limit;
}

}  // namespace

WriteBack write_back() {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t memory = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * page;
  const uint64_t available = std::min(page_cache_bytes().value_or(memory), cgroup_limit());
  const uint64_t ratio = number_in("/proc/sys/vm/dirty_ratio").value_or(0);
  const uint64_t fixed = number_in("/proc/sys/vm/dirty_bytes").value_or(0);
  if (fixed > 0) return {std::min(fixed, available), available};
  return {ratio > 0 ? available / 100 * ratio : std::min(memory, available) / 16, available};
}

}  // namespace lowtide::stream
