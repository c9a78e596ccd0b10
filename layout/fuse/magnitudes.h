// SPDX-License-Identifier: Apache-2.0
// How large the numbers of a constant are, for rules that are right only where all of them, or what is made of them,
// are finite.
#pragma once

#include <optional>

#include "layout/fuse/rules.h"

namespace lowtide::layout {

struct Magnitudes {
  double least = 0, most = 0;  // of |number|; NaN where one is NaN
};

// Reads the constant, tile by tile. nullopt where it is not a constant of floats, or has no elements.
std::optional<Magnitudes> magnitudes_of(Rewriter& rewriter, ValueId constant);

// Whether a constant whose numbers are finite stays so when they are multiplied by numbers of this magnitude.
bool stays_finite(Rewriter& rewriter, ValueId constant, double factor);

}  // namespace lowtide::layout
