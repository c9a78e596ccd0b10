// SPDX-License-Identifier: Apache-2.0
// RFFT2D on its way to ONNX: [images, height, width] to [images, height, width / 2 + 1, 2].
#pragma once

#include <cstdint>

#include "layout/raise/raised_operator.h"

namespace lowtide::layout {

struct FourierTransform : RaisedOperator {
  int64_t height = 0, width = 0;
};

}  // namespace lowtide::layout
