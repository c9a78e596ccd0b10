// SPDX-License-Identifier: Apache-2.0
// Cuts an order of units into pieces that fit in memory, with the fewest bytes at the seams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lowtide::layout {

// Units that use the same weights give them the same number: a piece has them once. Numbers are small.
struct PartWeights {
  size_t number = 0;
  uint64_t bytes = 0;
};

// What stands at one place of the order.
struct OrderedUnit {
  std::vector<PartWeights> weights;  // each number once
  uint64_t activation_bytes = 0;     // of all values that are in memory while it runs
  uint64_t seam_bytes = 0;           // of the values that a cut in front of it would hand over; of the first: not used
  bool must_cut = false;             // another runtime begins here
  uint64_t limit = UINT64_MAX;       // bytes of the piece that it is in: the same for all units of one runtime

  uint64_t bytes() const;  // of a piece of this unit alone
};

enum class FewestOf : uint8_t { kBytes, kPieces };

// The places in front of which to cut, ascending, the first one (0) left out. In each piece the weights, each counted
// once, and the largest activation_bytes are at most its limit together. Of all such cuts those with the fewest bytes
// at the seams, and of these the fewest; or the fewest, and of these those with the fewest bytes. Throws Error(kBudget)
// when one unit alone is larger; the text names the smallest limit that would do.
std::vector<size_t> cut_by_memory(const std::vector<OrderedUnit>& order, FewestOf what = FewestOf::kBytes);

}  // namespace lowtide::layout
