// SPDX-License-Identifier: Apache-2.0
// The whole table of ONNX operators; the lowering itself looks for one row (find_lowering).
#pragma once

#include <span>

#include "layout/lower/lowering.h"

namespace lowtide::layout {

// Sorted by domain and name.
std::span<const LowerRow> lowerings();

}  // namespace lowtide::layout
