// SPDX-License-Identifier: Apache-2.0
// How the weights are stored, for the report.
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
  // Tensors that the model stores in f16: those that the output has unchanged, and the bytes saved by that; those that
  // are f32 in the output, mostly because something was computed with them, and the bytes that this takes.
  uint64_t as_stored = 0, as_stored_bytes = 0;
  uint64_t widened = 0, widened_bytes = 0;

  // Of several models that are written to one file.
  ShrunkWeights& operator+=(const ShrunkWeights& other) {
    f16 += other.f16, int8 += other.int8, int4 += other.int4, f32 += other.f32;
    kept.insert(kept.end(), other.kept.begin(), other.kept.end());
    as_stored += other.as_stored, as_stored_bytes += other.as_stored_bytes;
    widened += other.widened, widened_bytes += other.widened_bytes;
    return *this;
  }
};

}  // namespace lowtide::core
