// SPDX-License-Identifier: Apache-2.0
// NON_MAX_SUPPRESSION_V4 and _V5 on their way to ONNX: a CUSTOM op of the core graph. Inputs: boxes [n, 4], scores [n],
// the most that are selected, the thresholds of overlaps and of scores. Outputs: i32 places [most], f32 scores [most]
// if has_scores, i32 count [].
#pragma once

#include <cstdint>

#include "layout/raise/raised_operator.h"

namespace lowtide::layout {

struct Suppression : RaisedOperator {
  bool has_scores = false;
};

}  // namespace lowtide::layout
