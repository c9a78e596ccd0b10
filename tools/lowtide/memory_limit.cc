#include "tools/lowtide/memory_limit.h"

#include <fmt/format.h>

#include <algorithm>

#include "emit/report.h"
#include "emit/resident.h"
#include "stream/error.h"

namespace {

using lowtide::stream::Code;
using lowtide::stream::Error;

// Beside tiles and windows a conversion needs room for what comes and goes on the heap.
constexpr uint64_t kHeapMargin = uint64_t{2} << 20;
// The least that a model is read in and a recipe poured.
constexpr uint64_t kSmallestBudget = uint64_t{1} << 20;
constexpr uint64_t kMiB = uint64_t{1} << 20;
// Without --max-rss: this, or more when the graph alone is that large.
constexpr uint64_t kUsualRss = 32 * kMiB;
constexpr uint64_t kUsualBudget = 8 * kMiB;

uint64_t left_of(uint64_t max_rss) {
  uint64_t taken = lowtide::emit::resident().now + kHeapMargin;
  return max_rss > taken ? max_rss - taken : 0;
}

}  // namespace

uint64_t reading_budget(uint64_t max_rss) {
  return std::max(left_of(max_rss > 0 ? max_rss : kUsualRss), kSmallestBudget);
}

uint64_t limit_for_writing(uint64_t max_rss) {
  if (max_rss > 0) return max_rss;
  lowtide::emit::Resident resident = lowtide::emit::resident();
  return std::max({kUsualRss, resident.peak, resident.now + kHeapMargin + kUsualBudget});
}

uint64_t writing_budget(uint64_t max_rss) {
  lowtide::emit::Resident resident = lowtide::emit::resident();
  uint64_t needed = std::max(resident.peak, resident.now + kHeapMargin + kSmallestBudget);
  if (max_rss >= needed) return left_of(max_rss);
  throw Error(Code::kBudget, fmt::format("--max-rss {} is too small for this model: {}M would do",
                                         lowtide::emit::memory_size(max_rss), needed / kMiB + 1));
}
