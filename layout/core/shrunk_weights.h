// SPDX-License-Identifier: Apache-2.0
// How weights were stored that were to be stored in fewer bits: for the report.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lowtide::core {

// Float constants of two axes and at least this many elements count as weights; a list is a bias or a scale.
inline constexpr uint64_t kWeightElements = 1024;

struct ShrunkWeights {
  uint64_t f16 = 0, int8 = 0, int4 = 0, f32 = 0;  // tensors; f32: those that stayed
  std::vector<std::string> kept;                  // a line for each that had to stay: its name and why
};

}  // namespace lowtide::core
