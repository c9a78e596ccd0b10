// SPDX-License-Identifier: Apache-2.0
// Resampling along one axis: the input elements and weights of each element of the result, as ONNX defines it and as
// TFLite's kernels compute it. The two are compared numerically, so no relation between the specifications is assumed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lowtide::layout {

enum class Interpolation { kNearest, kLinear, kCubic };
enum class Transform {
  kHalfPixel,
  kHalfPixelSymmetric,
  kPytorchHalfPixel,
  kAlignCorners,
  kAsymmetric,
  kTfHalfPixelForNn,
  kTfCropAndResize,
};
// kSimple: that of Upsample and of Resize 10, floor, or ceil where the axis shrinks.
enum class NearestMode { kSimple, kRoundPreferFloor, kRoundPreferCeil, kFloor, kCeil };

struct Resampling {
  Interpolation interpolation = Interpolation::kNearest;
  Transform transform = Transform::kHalfPixel;
  NearestMode nearest = NearestMode::kRoundPreferFloor;
  float cubic_a = -0.75f;
  bool exclude_outside = false;
  bool antialias = false;
};

struct ResampledAxis {
  int64_t in = 1, out = 1;
  float scale = 1;                   // ONNX's input, which may differ from the ratio of the sizes
  float roi_start = 0, roi_end = 1;  // kTfCropAndResize only
};

struct Tap {
  int64_t index;
  float weight;
};
struct Taps {
  std::vector<Tap> taps;  // by index, each once
  bool outside = false;   // the position is outside the input: extrapolated by kTfCropAndResize
};

// One entry for each element of the result. Sources: ONNX's Resize; ONNX Runtime's arithmetic (32-bit floats), which
// decides ties and borders.
std::vector<Taps> onnx_taps(const Resampling& how, const ResampledAxis& axis);

// A setting of RESIZE_NEAREST_NEIGHBOR or, for linear interpolation, of RESIZE_BILINEAR.
struct KernelSetting {
  bool align_corners = false, half_pixel_centers = false;
};
// Whether the kernel takes the same elements by the same weights, except for rounding. The position of an element that
// is extrapolated does not count as another.
bool kernel_agrees(const Resampling& how, const ResampledAxis& axis, KernelSetting setting);

}  // namespace lowtide::layout
