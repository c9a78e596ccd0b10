// SPDX-License-Identifier: Apache-2.0
// The inputs and attributes of a Resize or Upsample, by axis.
#pragma once

#include <optional>
#include <string>
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

// Resizes `axis` of x, whose sizes are known at run time only: the model computes positions and weights. Antialiasing
// is refused.
Val resized_at_run_time(Lowering& lo, const ResizePlan& plan, Val x, int axis);

// A Resize or Upsample some of whose operands are computed at run time. Lists with an element for each of the axes.
struct ResizeOperands {
  Resampling how;
  std::vector<int> axes;
  Val scales, sizes;               // one of them
  Val roi;                         // starts, then ends; kTfCropAndResize only
  std::string policy = "stretch";  // keep_aspect_ratio_policy, of sizes
  float extrapolation = 0;
};
// nullopt where all that it needs is known at conversion, so that read_resize reads it.
std::optional<ResizeOperands> read_resize_operands(Lowering& lo, Val x);
std::optional<ResizeOperands> read_upsample_operands(Lowering& lo, Val x);
Val resized_by_operands(Lowering& lo, const ResizeOperands& operands, Val x);

}  // namespace lowtide::layout
