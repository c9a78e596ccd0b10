// SPDX-License-Identifier: Apache-2.0
// See resample.h. Sources: ONNX's Resize; ONNX Runtime's coordinates and antialiasing filter (a filter stretched by 1 /
// scale; weights of elements outside are added to the border's, or dropped with exclude_outside); LiteRT's
// reference/resize_bilinear.h and resize_nearest_neighbor.h.
#include "layout/lower/resample.h"

#include <algorithm>
#include <cmath>

namespace lowtide::layout {
namespace {

// Maps position x of the result to a position of the input.
float original(Transform transform, float x, const ResampledAxis& axis) {
  const float in = static_cast<float>(axis.in), out = static_cast<float>(axis.out);
  switch (transform) {
    case Transform::kAsymmetric:
      return x / axis.scale;
    case Transform::kPytorchHalfPixel:
      return out > 1 ? (x + 0.5f) / axis.scale - 0.5f : 0.0f;
    case Transform::kTfHalfPixelForNn:
      return (x + 0.5f) / axis.scale;
    case Transform::kAlignCorners:
      return out == 1 ? 0.0f : x * (in - 1) / (out - 1);
    case Transform::kTfCropAndResize:
      return out > 1 ? axis.roi_start * (in - 1) + (x * (axis.roi_end - axis.roi_start) * (in - 1)) / (out - 1)
                     : 0.5f * (axis.roi_start + axis.roi_end) * (in - 1);
    case Transform::kHalfPixelSymmetric: {
      const float offset = in / 2 * (1 - out / (axis.scale * in));
      return static_cast<float>(offset + (x + 0.5) / axis.scale - 0.5);
    }
    case Transform::kHalfPixel:
      break;
  }
  return (x + 0.5f) / axis.scale - 0.5f;
}

int64_t nearest_index(NearestMode mode, float x, bool shrinks) {
  switch (mode) {
    case NearestMode::kSimple:
      return static_cast<int64_t>(shrinks ? std::ceil(x) : std::trunc(x));
    case NearestMode::kFloor:
      return static_cast<int64_t>(std::floor(x));
    case NearestMode::kCeil:
      return static_cast<int64_t>(std::ceil(x));
    case NearestMode::kRoundPreferCeil:
      return static_cast<int64_t>(std::round(x));
    case NearestMode::kRoundPreferFloor:
      break;
  }
  const bool tie = x == static_cast<float>(static_cast<int64_t>(x)) + 0.5f;
  return static_cast<int64_t>(tie ? std::floor(x) : std::round(x));
}

// The interpolation kernel at distance d.
float filter(const Resampling& how, float d) {
  d = std::fabs(d);
  if (how.interpolation == Interpolation::kLinear) return std::max(0.0f, 1 - d);
  const float a = how.cubic_a;
  if (d < 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2) return (((d - 5) * d + 8) * d - 4) * a;
  return 0;
}

// Adds up weights of the same index, drops zeros.
std::vector<Tap> gathered(std::vector<Tap> taps) {
  std::stable_sort(taps.begin(), taps.end(), [](const Tap& a, const Tap& b) { return a.index < b.index; });
  std::vector<Tap> sums;
  for (const Tap& tap : taps) {
    if (!sums.empty() && sums.back().index == tap.index)
      sums.back().weight += tap.weight;
    else
      sums.push_back(tap);
  }
  std::erase_if(sums, [](const Tap& tap) { return tap.weight == 0; });
  return sums;
}

std::vector<Tap> filtered(const Resampling& how, const ResampledAxis& axis, float x) {
  const float shrink = how.antialias ? std::min(1.0f, axis.scale) : 1.0f;
  const float support = (how.interpolation == Interpolation::kLinear ? 1.0f : 2.0f) / shrink;
  std::vector<Tap> taps;
  float total = 0;
  for (int64_t i = static_cast<int64_t>(std::floor(x - support)); i <= static_cast<int64_t>(std::ceil(x + support));
       ++i) {
    const bool inside = i >= 0 && i < axis.in;
    if (how.exclude_outside && !inside) continue;
    const float weight = filter(how, (static_cast<float>(i) - x) * shrink);
    total += weight;
    taps.push_back({std::clamp<int64_t>(i, 0, axis.in - 1), weight});
  }
  const bool normalise = how.antialias || how.exclude_outside;
  if (normalise && total != 0)
    for (Tap& tap : taps) tap.weight /= total;
  return gathered(std::move(taps));
}

Taps onnx_taps_at(const Resampling& how, const ResampledAxis& axis, int64_t i) {
  const bool stays = axis.scale == 1 && axis.in == axis.out && how.transform != Transform::kTfCropAndResize;
  float x = stays ? static_cast<float>(i) : original(how.transform, static_cast<float>(i), axis);
  const float last = static_cast<float>(axis.in - 1);
  Taps taps;
  taps.outside = how.transform == Transform::kTfCropAndResize && !(x >= 0 && x <= last);
  if (std::isnan(x)) x = 0;  // of a region so large that its differences are infinite: outside
  // Far outside only the border contributes; clamping keeps the loops short.
  x = std::clamp(x, -2 * last - 8, 3 * last + 8);
  if (how.interpolation == Interpolation::kNearest) {
    taps.taps = {{std::clamp<int64_t>(nearest_index(how.nearest, x, axis.scale < 1), 0, axis.in - 1), 1.0f}};
  } else {
    if (how.interpolation == Interpolation::kLinear && !how.antialias) x = std::clamp(x, 0.0f, last);
    taps.taps = filtered(how, axis, x);
  }
  return taps;
}

std::vector<Tap> kernel_taps_at(bool bilinear, KernelSetting setting, int64_t in, int64_t out, int64_t i) {
  const float ratio = setting.align_corners && out > 1 ? static_cast<float>(in - 1) / static_cast<float>(out - 1)
                                                       : static_cast<float>(in) / static_cast<float>(out);
  const float value = static_cast<float>(i);
  if (bilinear) {
    const float x = setting.half_pixel_centers ? (value + 0.5f) * ratio - 0.5f : value * ratio;
    const int64_t low = std::max<int64_t>(static_cast<int64_t>(std::floor(x)), 0);
    const int64_t high = std::min<int64_t>(static_cast<int64_t>(std::ceil(x)), in - 1);
    const float part = x - static_cast<float>(low);
    return gathered({{low, 1 - part}, {high, part}});
  }
  const float x = (value + (setting.half_pixel_centers ? 0.5f : 0.0f)) * ratio;
  const int64_t at = static_cast<int64_t>(setting.align_corners ? std::round(x) : std::floor(x));
  return {{std::clamp<int64_t>(at, 0, in - 1), 1.0f}};
}

}  // namespace

std::vector<Taps> onnx_taps(const Resampling& how, const ResampledAxis& axis) {
  std::vector<Taps> all;
  for (int64_t i = 0; i < axis.out; ++i) all.push_back(onnx_taps_at(how, axis, i));
  return all;
}

bool kernel_agrees(const Resampling& how, const ResampledAxis& axis, KernelSetting setting) {
  // Positions are computed in 32-bit floats in different orders of operations: they differ by a few ulps, of the extent
  // where it is added to them. On a long axis that becomes a visible part of a pixel.
  constexpr float kMostUlpsOf = 1 << 16;
  const auto tolerance = [&](int64_t position) {
    const int64_t largest = how.transform == Transform::kHalfPixelSymmetric ? axis.in : position;
    return 1e-5f + 5e-7f * std::min(static_cast<float>(largest), kMostUlpsOf);
  };
  const bool bilinear = how.interpolation == Interpolation::kLinear;
  for (int64_t i = 0; i < axis.out; ++i) {
    std::vector<Tap> difference = onnx_taps_at(how, axis, i).taps;
    for (const Tap& tap : kernel_taps_at(bilinear, setting, axis.in, axis.out, i))
      difference.push_back({tap.index, -tap.weight});
    for (const Tap& tap : gathered(std::move(difference)))
      if (std::fabs(tap.weight) > tolerance(tap.index)) return false;
  }
  return true;
}

}  // namespace lowtide::layout
