// SPDX-License-Identifier: Apache-2.0
// Pours the payloads of a planned file from its end to its front.
//
// The work is cut into stretches of the file, each at most a few MiB: the pieces of one large payload, or many small
// payloads with the gaps between them. Threads take the next stretch towards the front, fill a buffer and write it. The
// bytes do not depend on where the cuts are, so neither budget nor thread count shows in the file.
#pragma once

#include <functional>

#include "emit/plan.h"
#include "stream/file/budget.h"
#include "stream/file/out_file.h"

namespace lowtide::emit {

// The ranges of the file that hold data, in order; the rest are holes of inputs that are copied as holes.
void for_each_data(const Plan& plan, const std::function<void(stream::Range)>& visit);

// The least budget that pour_payloads works with.
uint64_t least_for_pouring(const Plan& plan);
// Threads share what the budget has free. Throws what sources, recipes and the disk throw, with the tensor's name as
// its place. `header` is not written here.
void pour_payloads(const Plan& plan, stream::OutFile& out, stream::Budget& budget, const WriteOptions& options);

}  // namespace lowtide::emit
