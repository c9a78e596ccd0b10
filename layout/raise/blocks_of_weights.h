// SPDX-License-Identifier: Apache-2.0
// Weights with a scale for each block of their last axis, on their way to ONNX: a CUSTOM op of the core graph makes
// numbers of the integers [units, inputs] and the scales [units, inputs / block_size].
#pragma once

#include <cstdint>

#include "layout/raise/raised_operator.h"

namespace lowtide::layout {

struct BlockDequantize : RaisedOperator {
  int64_t block_size = 0;
};

}  // namespace lowtide::layout
