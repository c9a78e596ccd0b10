// SPDX-License-Identifier: Apache-2.0
// Softmax, for all lowerings that contain one.
#pragma once

#include "layout/lower/lowering.h"

namespace lowtide::layout {

// Along the node's `axis`, by the rules of Softmax at `opset`.
Val softmax_of(Lowering& lo, Val x, int64_t opset, int64_t default_axis);

}  // namespace lowtide::layout
