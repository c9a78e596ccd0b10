// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/memory_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <thread>

#include "emit/report.h"
#include "stream/error.h"
#include "tools/lowtide/resident.h"

namespace lowtide::tools {
namespace {

using stream::Code;
using stream::Error;

constexpr uint64_t kMiB = uint64_t{1} << 20;
// For heap memory beside tiles and windows.
constexpr uint64_t kHeapMargin = 2 * kMiB;
// The same for address space, of which more is allocated than used.
constexpr uint64_t kDataMargin = 16 * kMiB;
// The budget for reading a model and evaluating small constants is at least this, however small --max-rss is: so a
// graph takes the same memory under every --max-rss.
constexpr uint64_t kLeastForReading = 4 * kMiB;
constexpr uint64_t kLeastForWriting = 1 * kMiB;
// The number of resident pages of the program and its libraries varies between runs.
constexpr uint64_t kJitter = 1 * kMiB;
// Without --max-rss.
constexpr uint64_t kUsualRss = 32 * kMiB;
constexpr uint64_t kUsualBudget = 8 * kMiB;

// An upper estimate of the memory of a graph, from the size of its file: a node takes some hundred bytes in the file
// and some KiB in memory, and the largest graphs that runtimes read have less than 64 MiB of nodes. Functions and loops
// may unroll to far more than the file; their own limits are lower, because their errors say more.
uint64_t graph_allowance(const std::filesystem::path& model, uint64_t max_rss) {
  std::error_code none;
  const uintmax_t size = std::filesystem::file_size(model, none);
  return 512 * kMiB + 8 * std::max(max_rss, 64 * kMiB) + 32 * std::min<uint64_t>(none ? 0 : size, 64 * kMiB);
}

}  // namespace

int default_threads() { return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 2u)); }

MemoryLimit::MemoryLimit(uint64_t asked) : asked_(asked), bytes_(asked > 0 ? asked : kUsualRss) {}

uint64_t MemoryLimit::left() const {
  const uint64_t taken = resident().now + kHeapMargin;
  return bytes_ > taken ? bytes_ - taken : 0;
}

void MemoryLimit::allow_graph(const std::filesystem::path& model) const {
  limit_.leave(graph_allowance(model, bytes_));
}

uint64_t MemoryLimit::graph_budget() const { return std::max(left(), kLeastForReading); }

uint64_t MemoryLimit::writing_budget(uint64_t least, int threads) {
  least = std::max(least, kLeastForWriting);
  const Resident here = resident();
  if (asked_ == 0) bytes_ = std::max({kUsualRss, here.peak, here.now + kHeapMargin + std::max(kUsualBudget, least)});
  const uint64_t needed = std::max(here.peak, here.now + kHeapMargin + least);
  if (bytes_ < needed) refuse(needed);
  const uint64_t budget = left();
  limit_.leave(budget + kDataMargin + stack_bytes(threads));
  return budget;
}

void MemoryLimit::refuse_reading(uint64_t needed) const {
  const uint64_t taken = resident().now + kHeapMargin;
  refuse(needed > UINT64_MAX - kJitter - taken ? UINT64_MAX - kJitter : taken + needed);
}

void MemoryLimit::refuse(uint64_t needed) const {
  throw Error(Code::kBudget, fmt::format("--max-rss {} is too small for this model; --max-rss {}M is enough",
                                         emit::memory_size(bytes_), (needed + kJitter) / kMiB + 1));
}

}  // namespace lowtide::tools
