// SPDX-License-Identifier: Apache-2.0
// Resampling along one axis: which elements, with which weights, make each element of the result; as ONNX demands it
// and as TFLite's kernels do it. The two are compared as numbers, so nothing is assumed of how the specifications
// relate.
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
// kSimple is what Upsample and version 10 of Resize do: floor, and ceil where the axis shrinks.
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
  float scale = 1;                   // what ONNX was given, not the ratio of the sizes
  float roi_start = 0, roi_end = 1;  // kTfCropAndResize only
};

struct Tap {
  int64_t index;
  float weight;
};
struct Taps {
  std::vector<Tap> taps;  // by index, each once
  bool outside = false;   // the position lies outside the input: extrapolated by kTfCropAndResize
};

// One entry for each element of the result. Source: ONNX's Resize, and ONNX Runtime's arithmetic (32-bit floats), which
// decides ties and borders.
std::vector<Taps> onnx_taps(const Resampling& how, const ResampledAxis& axis);

// A setting of RESIZE_NEAREST_NEIGHBOR or RESIZE_BILINEAR.
struct KernelSetting {
  bool align_corners = false, half_pixel_centers = false;
};
std::vector<Taps> kernel_taps(bool bilinear, KernelSetting setting, int64_t in, int64_t out);

// Are they the same but for rounding?
bool same_taps(const std::vector<Taps>& a, const std::vector<Taps>& b, int64_t in);

}  // namespace lowtide::layout
