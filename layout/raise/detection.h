// SPDX-License-Identifier: Apache-2.0
// TFLite_Detection_PostProcess on its way to ONNX. Inputs: encodings [1, boxes, 4 or more], scores [1, boxes, classes],
// anchors [boxes, 4]. Results: boxes [1, n, 4], classes [1, n], scores [1, n], count [1], all f32.
#pragma once

#include <array>
#include <cstdint>

#include "layout/raise/raised_operator.h"

namespace lowtide::layout {

struct Detection : RaisedOperator {
  int64_t most_detections = 0, most_classes = 0;  // n is their product
  int64_t detections_of_class = 0;                // regular form
  bool is_regular = false;                        // suppression within each class, not by each box's best class
  float least_score = 0, most_overlap = 0;
  int64_t classes = 0;              // without that of the background, which stands first
  std::array<float, 4> scale = {};  // y, x, h, w
};

}  // namespace lowtide::layout
