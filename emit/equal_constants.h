// SPDX-License-Identifier: Apache-2.0
// Constants with the same bytes, for models that are merged: those are stored once. Weights are read piece by piece,
// the first time for a digest (XXH3, 128 bits), and those whose digests are equal once more to compare every byte.
#pragma once

#include <cstdint>

#include "layout/core/graph.h"
#include "stream/file/budget.h"
#include "stream/progress.h"

namespace lowtide::emit {

struct EqualConstants {
  uint64_t constants = 0;  // that are stored with another one
  uint64_t bytes = 0;      // of them
};

// Fills `model.stored_with`. Only constants of one element type and number of elements are compared.
EqualConstants find_equal_constants(core::Model& model, stream::Budget& budget, stream::Progress* progress);
// The smallest budget for it.
uint64_t least_for_equal_constants(const core::Model& model);

}  // namespace lowtide::emit
