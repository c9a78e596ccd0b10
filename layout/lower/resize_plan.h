// SPDX-License-Identifier: Apache-2.0
// The inputs and attributes of a Resize or Upsample, by axis.
#pragma once

#include <vector>

#include "layout/lower/lowering.h"
#include "layout/lower/resample.h"

namespace lowtide::layout {

// An axis of the input; only those that change are resampled.
struct ResizeAxis {
  Dim in = 1, out = 1;
  float scale = 1;
  float roi_start = 0, roi_end = 1;
  bool from_scale = false;  // the model gives the scale, else the size
  bool changes = false;

  bool known() const { return !core::is_symbol(in) && !core::is_symbol(out); }
  ResampledAxis resampled() const { return {in, out, scale, roi_start, roi_end}; }
};

struct ResizePlan {
  Resampling how;
  std::vector<ResizeAxis> axes;
  float extrapolation = 0;
};

// From the node's attributes and inputs, all versions.
ResizePlan read_resize(Lowering& lo, Val x);
ResizePlan read_upsample(Lowering& lo, Val x);

// Resizes `axis` of x, whose sizes are known at run time only: the model computes positions and weights. Supports
// nearest and linear without antialiasing; anything else is refused.
Val resized_at_run_time(Lowering& lo, const ResizePlan& plan, Val x, int axis);

}  // namespace lowtide::layout
