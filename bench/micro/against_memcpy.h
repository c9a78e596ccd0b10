// SPDX-License-Identifier: Apache-2.0
// Micro benchmarks print ratios: each iteration does the work and then a memcpy of the same bytes, in turns, so that
// what else the machine does falls on both. `of_memcpy` 0.5: half as fast as memcpy.
#pragma once

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <vector>

namespace lowtide::bench {

// `work` moves or makes `bytes` bytes.
template <typename Work>
void against_memcpy(benchmark::State& state, size_t bytes, Work&& work) {
  using Clock = std::chrono::steady_clock;
  std::vector<std::byte> from(bytes, std::byte{1}), to(bytes);
  std::chrono::duration<double> ours{}, theirs{};
  for (auto _ : state) {
    const auto begun = Clock::now();
    work();
    benchmark::ClobberMemory();
    const auto between = Clock::now();
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::ClobberMemory();
    const auto ended = Clock::now();
    ours += between - begun;
    theirs += ended - between;
    state.SetIterationTime(std::chrono::duration<double>(between - begun).count());
  }
  state.SetBytesProcessed(static_cast<int64_t>(bytes) * static_cast<int64_t>(state.iterations()));
  state.counters["of_memcpy"] = theirs / ours;
}

}  // namespace lowtide::bench
