// SPDX-License-Identifier: Apache-2.0
// Where images are flattened for fully connected layers, whose weights can take the order of the flattened elements.
#pragma once

#include <vector>

#include "layout/core/rewriter.h"

namespace lowtide::layout {

// For a RESHAPE [N, ...] to [N, K]: the FULLY_CONNECTED ops behind it, also behind ops that compute each element
// alone. Empty where one of its uses is another, or where weights cannot be moved.
std::vector<core::OpId> layers_of_flatten(core::Rewriter& rewriter, core::OpId reshape);

// Whether a value reaches such a RESHAPE through a few ops that a TRANSPOSE of the value can go behind: the weights
// take it there.
bool is_flattened_below(core::Rewriter& rewriter, core::ValueId id, const core::Perm& perm);

}  // namespace lowtide::layout
