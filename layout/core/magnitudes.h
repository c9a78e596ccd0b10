// SPDX-License-Identifier: Apache-2.0
// How large the numbers of a constant are.
#pragma once

#include <optional>

#include "layout/core/graph.h"

namespace lowtide::core {

struct Magnitudes {
  double least = 0, most = 0;  // of |number|; NaN where one is NaN
};

// Reads the constant, tile by tile: large weights take time. nullopt where it is not a constant of floats, has no
// elements, or is computed by too many steps.
std::optional<Magnitudes> magnitudes_of(Graph& graph, ValueId constant);

}  // namespace lowtide::core
