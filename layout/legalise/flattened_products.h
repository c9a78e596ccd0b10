// SPDX-License-Identifier: Apache-2.0
// FULLY_CONNECTED reads its input as rows of as many elements as its weights have columns, whatever its axes are. So
// axes of extent 1, which a global pooling leaves, need no op to drop them:
//
//     [N,1,1,C] -> RESHAPE [N,C] -> FULLY_CONNECTED        becomes        [N,1,1,C] -> FULLY_CONNECTED
//
// Of u8 nor do axes that are merged.
#pragma once

#include "layout/core/graph.h"

namespace lowtide::layout {

// Removes such RESHAPEs. For final axis orders.
void flatten_in_products(core::Graph& graph);

}  // namespace lowtide::layout
