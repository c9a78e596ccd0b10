// SPDX-License-Identifier: Apache-2.0
// The list of extents that RESHAPE has as an operand.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "layout/core/symbols.h"

namespace lowtide::core {

// The list that gives `shape` as a constant, with -1 for an open extent. Nothing where the extents have to be computed
// at run time: several are open, or one beside a 0. There -1 could be any number, and LiteRT takes 0.
std::optional<std::vector<int64_t>> constant_reshape_list(std::span<const Dim> shape);

}  // namespace lowtide::core
