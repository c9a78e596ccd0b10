// SPDX-License-Identifier: Apache-2.0
// Ids and masks of 64 bits become i32 (--for gpu).
#pragma once

#include <string>
#include <vector>

#include "layout/core/graph.h"

namespace lowtide::layout {

// Inputs of 64 bits that only give ids and masks, and what carries these to look-ups and casts, become i32. Returns the
// names of the inputs.
std::vector<std::string> narrow_ids(core::Graph& graph);

}  // namespace lowtide::layout
