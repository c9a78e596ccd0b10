// SPDX-License-Identifier: Apache-2.0
// NEG and DIV by constants have no integer kernels; MUL by -1, or by the reciprocals, has one.
#pragma once

#include <optional>

#include "layout/quantize/grid.h"

namespace lowtide::layout {

// The op as MUL by a new constant; nullopt where it is neither, or a reciprocal is not a normal float. `by_lists`: also
// DIV by several numbers, whose reciprocals are on no grid of the model.
std::optional<Op> as_product(Graph& graph, const Op& op, bool by_lists);

}  // namespace lowtide::layout
