// SPDX-License-Identifier: Apache-2.0
// No kernel takes floats of 8 or 4 bits. Until here the graph has values of such types, CASTs from and to them, and ops
// that move them; here they become u8 of the same bits, one element a byte (docs/decisions/element-types.md).
#pragma once

#include <string>
#include <vector>

#include "layout/core/graph.h"
#include "stream/error.h"

namespace lowtide::layout {

// Writes CASTs from and to small floats with builtins, and gives all values of such types u8. Returns the ops that
// compute in such a type.
std::vector<stream::Unsupported> small_floats_as_bits(core::Graph& graph);

// A line for each input and output that is of such a type. Before small_floats_as_bits().
std::vector<std::string> notes_on_small_floats(const core::Graph& graph);

}  // namespace lowtide::layout
