// SPDX-License-Identifier: Apache-2.0
// Several threads at one work, each with a share of the memory budget of its own, so that none can starve another and
// the outcome does not depend on their race.
#pragma once

#include <cstdint>
#include <functional>

#include "stream/file/budget.h"

namespace lowtide::stream {

// What each thread gets of the budget when run_workers is given the same: it decides how the work is cut.
uint64_t share_of(const Budget& budget, uint64_t bytes_per_thread, int threads);

// Runs `work` in as many threads as are asked for and the budget has `bytes_per_thread` for, but at least in this one.
// The first exception of any is thrown again when all have ended; `work` itself sees to it that the others end soon.
void run_workers(Budget& budget, uint64_t bytes_per_thread, int threads, const std::function<void(Budget& own)>& work);

}  // namespace lowtide::stream
