// SPDX-License-Identifier: Apache-2.0
// A TFLite file in a few lines, for golden files: an operator a line, small constants where they are used, large ones
// by a digest of their bytes, options only where they differ from the usual.
//
//     (x f32[1,3,7,9]) -> (y f32[1,4,4,3])
//     %1 f32[1,7,9,3] = TRANSPOSE(x, {0,2,3,1})
//     %2 f32[1,4,3,4] = CONV_2D(%1, f32[4,3,2,3]#0a1b2c3d, f32[4]{0,0,0,0}) padding=VALID stride_w=3 stride_h=2
//     y f32[1,4,4,3] = TRANSPOSE(%2, {0,3,1,2})
#pragma once

#include <string>

#include "stream/file/budget.h"
#include "stream/tflite/model.h"

namespace lowtide::golden {

std::string short_listing(const tfl::Model& model, stream::Budget& budget);

}  // namespace lowtide::golden
