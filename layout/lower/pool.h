// SPDX-License-Identifier: Apache-2.0
// Average pooling, for all lowerings that contain it.
#pragma once

#include "layout/lower/lowering.h"

namespace lowtide::layout {

// x [N, C, spatial...] averaged by the node's window attributes and count_include_pad.
Val average_pool(Lowering& lo, Val x);

}  // namespace lowtide::layout
