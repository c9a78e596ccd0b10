// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/memory_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "emit/report.h"
#include "stream/error.h"
#include "tools/lowtide/resident.h"

namespace lowtide::tools {
namespace {

using stream::Code;
using stream::Error;

constexpr uint64_t kMiB = uint64_t{1} << 20;
// Beside tiles and windows a conversion needs room for what comes and goes on the heap.
constexpr uint64_t kHeapMargin = 2 * kMiB;
// The same as address space, of which more is taken than is touched.
constexpr uint64_t kDataMargin = 16 * kMiB;
// What a model is read with and its small constants are worked out in, however small --max-rss: so that a graph takes
// the same memory under every --max-rss.
constexpr uint64_t kLeastForReading = 4 * kMiB;
constexpr uint64_t kLeastForWriting = 1 * kMiB;
// How many pages of the program and its libraries are resident differs a little from run to run.
constexpr uint64_t kJitter = 1 * kMiB;
// Without --max-rss.
constexpr uint64_t kUsualRss = 32 * kMiB;
constexpr uint64_t kUsualBudget = 8 * kMiB;

// A generous guess of what a graph may take, of which only the file's size is known: a node takes some hundred bytes
// there and some KiB in memory, and the largest graphs that runtimes read have less than 64 MiB of nodes. Functions and
// loops of a small file may unroll to much, too: their own limits come first, because their errors say more.
uint64_t graph_allowance(const std::filesystem::path& model, uint64_t max_rss) {
  std::error_code none;
  const uintmax_t size = std::filesystem::file_size(model, none);
  return 512 * kMiB + 8 * std::max(max_rss, 64 * kMiB) + 32 * std::min<uint64_t>(none ? 0 : size, 64 * kMiB);
}

}  // namespace

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
