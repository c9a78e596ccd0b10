// SPDX-License-Identifier: Apache-2.0
#include "stream/file/workers.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace lowtide::stream {
namespace {

uint64_t count_of(uint64_t free, uint64_t bytes_per_thread, int threads) {
  return std::clamp<uint64_t>(free / bytes_per_thread, 1, static_cast<uint64_t>(std::max(1, threads)));
}

}  // namespace

uint64_t share_of(const Budget& budget, uint64_t bytes_per_thread, int threads) {
  const uint64_t free = budget.available();
  return free / count_of(free, bytes_per_thread, threads);
}

void run_workers(Budget& budget, uint64_t bytes_per_thread, int threads, const std::function<void(Budget& own)>& work) {
  const uint64_t free = budget.available();
  const uint64_t count = count_of(free, bytes_per_thread, threads);
  if (count == 1) return work(budget);
  std::mutex mutex;
  std::exception_ptr failure;
  auto guarded = [&] {
    try {
      Budget own(free / count, budget);
      work(own);
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      for (uint64_t i = 1; i < count; ++i) others.emplace_back(guarded);
    } catch (const std::system_error&) {
      // A limit on processes: those that are there do the work.
    }
    guarded();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace lowtide::stream
