// SPDX-License-Identifier: Apache-2.0
// What happens in a conversion, for programs: one JSON object on each line (convert --progress-fd, --errors json).
// tools/python/lowtide/events.py reads these lines; tests/python compares both sides. Keys are only added.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "emit/refusal.h"
#include "emit/report.h"
#include "stream/error.h"

namespace lowtide::emit {

// Bytes of a phase that are done, of how many (0: not known), and resident memory in bytes.
std::string progress_line(std::string_view phase, uint64_t done, uint64_t total, uint64_t resident);
std::string done_line(const Report& report);
// Fields that are not known are left out.
std::string error_line(const stream::Error& error);
std::string refusal_line(const Refusal& refusal);

}  // namespace lowtide::emit
