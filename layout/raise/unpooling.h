// SPDX-License-Identifier: Apache-2.0
// MediaPipe's MaxPoolingWithArgmax2D and MaxUnpooling2D on their way to ONNX, in ONNX's axis order. A place is a number
// inside its window, row by row, and one tenth, as f32.
#pragma once

#include "layout/core/options.h"
#include "layout/raise/raised_operator.h"

namespace lowtide::layout {

struct PlacedPool : RaisedOperator {
  core::PoolOptions window;
};

}  // namespace lowtide::layout
