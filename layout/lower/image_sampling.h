// SPDX-License-Identifier: Apache-2.0
// Samples an image at positions that are computed at run time, by interpolation. For GridSample, DeformConv and
// RoiAlign.
#pragma once

#include <span>

#include "layout/lower/lowering.h"

namespace lowtide::layout {

// [N, C, H, W] as rows of channels [N * H * W, C], and for each image its first row, i32 [N, 1]; absent for one image.
struct ImageRows {
  Val image, first;
};
// `area` is H * W.
ImageRows as_rows(Lowering& lo, Val x, Dim area);

enum class Sampling { kNearest, kLinear, kCubic };
enum class Outside { kZeros, kBorder, kReflection };

struct Sampler {
  Sampling mode = Sampling::kLinear;
  Outside outside = Outside::kZeros;
  bool align_corners = false;    // reflects at the centres of the outermost elements, else at their outer edges
  bool largest = false;          // the largest of the weighted taps instead of their sum (RoiAlign with mode max)
  std::span<const Dim> sizes;    // of the image's spatial axes; may be symbols
  bool last_axis_first = false;  // the order of the axes in positions
};

// `image` is [rows, C], the elements of one or several images; `first` is an i32 tensor [N, 1] or [N, Q] with the first
// row of each sample's image, or absent. `at` is [N, axes, Q] f32: positions in elements. Returns [N, Q, C] in the
// image's dtype; only kNearest takes other types than floats.
Val sampled(Lowering& lo, Val image, Val first, Val at, const Sampler& sampler);

}  // namespace lowtide::layout
