// SPDX-License-Identifier: Apache-2.0
// The first of the two passes over weights that are stored in fewer bits: how large are they? Each is read once, tile
// by tile, by several threads; what is found does not depend on the tiles or the threads.
//
// The trap: a scale is known only when the last element was seen, and it stands in the file's header. So this pass runs
// while the graph is laid out, and the writing pass reads the weights again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stream/file/budget.h"
#include "stream/progress.h"
#include "stream/recipe/recipe.h"

namespace lowtide::stream {

struct Magnitude {
  RecipeRef input;           // f32, not empty
  int axis = -1;             // one magnitude for each of its indices; -1: one for the whole tensor
  std::vector<float> found;  // the largest |element|; NaN beats all
};

// Fills `found` of all. `progress` may be null; its stage is of the bytes of the elements.
void measure(std::span<Magnitude> all, Budget& budget, int threads, Progress* progress);

}  // namespace lowtide::stream
