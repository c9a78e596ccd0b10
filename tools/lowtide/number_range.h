// SPDX-License-Identifier: Apache-2.0
// Whole numbers from one to another, as descriptions of targets give them: [least, most].
#pragma once

#include <cstdint>

namespace lowtide::tools {

struct NumberRange {
  int64_t least = 0, most = 0;
  bool has(int64_t number) const { return number >= least && number <= most; }
};

}  // namespace lowtide::tools
