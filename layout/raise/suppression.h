// SPDX-License-Identifier: Apache-2.0
// NON_MAX_SUPPRESSION_V4 and _V5 on their way to ONNX: a CUSTOM op of the core graph. Inputs: boxes [n, 4], scores [n].
// Outputs: i32 places [most], f32 scores [most] if has_scores, i32 count [].
#pragma once

#include <cstdint>

#include "layout/raise/raised_operator.h"

namespace lowtide::layout {

struct Suppression : RaisedOperator {
  int64_t most = 0;  // boxes that are selected
  // A box is suppressed by one that it overlaps more than this; its score must be above the other.
  float overlap = 0, score = 0;
  bool has_scores = false;
};

}  // namespace lowtide::layout
