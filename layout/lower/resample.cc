// SPDX-License-Identifier: Apache-2.0
// See resample.h. Sources: ONNX's Resize; ONNX Runtime's coordinates and antialiasing filter (a filter stretched by 1 /
// scale; weights of elements outside are added to the border's, or dropped with exclude_outside); LiteRT's
// reference/resize_bilinear.h and resize_nearest_neighbor.h.
#include "layout/lower/resample.h"

#include <algorithm>
#include <cmath>
#include <utility>

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

// Adds up weights of the same index, drops zeros. The taps are few, and nearly in order.
void merge_taps(std::vector<Tap>& taps) {
  for (size_t i = 1; i < taps.size(); ++i)
    for (size_t at = i; at > 0 && taps[at].index < taps[at - 1].index; --at) std::swap(taps[at], taps[at - 1]);
  size_t kept = 0;
  for (const Tap& tap : taps) {
    if (kept > 0 && taps[kept - 1].index == tap.index)
      taps[kept - 1].weight += tap.weight;
    else
      taps[kept++] = tap;
  }
  taps.resize(kept);
  std::erase_if(taps, [](const Tap& tap) { return tap.weight == 0; });
}

// Taps of the filter around position x, in place of those in `taps`.
void filter_at(const Resampling& how, const ResampledAxis& axis, float x, std::vector<Tap>& taps) {
  const float shrink = how.antialias ? std::min(1.0f, axis.scale) : 1.0f;
  const float support = (how.interpolation == Interpolation::kLinear ? 1.0f : 2.0f) / shrink;
  taps.clear();
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
  merge_taps(taps);
}

// In place of what `taps` has: its memory is used again.
void onnx_taps_at(const Resampling& how, const ResampledAxis& axis, int64_t i, Taps& taps) {
  const bool stays = axis.scale == 1 && axis.in == axis.out && how.transform != Transform::kTfCropAndResize;
  float x = stays ? static_cast<float>(i) : original(how.transform, static_cast<float>(i), axis);
  const float last = static_cast<float>(axis.in - 1);
  taps.outside = how.transform == Transform::kTfCropAndResize && !(x >= 0 && x <= last);
  if (std::isnan(x)) x = 0;  // of a region so large that its differences are infinite: outside
  // Far outside only the border contributes; clamping keeps the loops short.
  x = std::clamp(x, -2 * last - 8, 3 * last + 8);
  if (how.interpolation == Interpolation::kNearest) {
    taps.taps = {{std::clamp<int64_t>(nearest_index(how.nearest, x, axis.scale < 1), 0, axis.in - 1), 1.0f}};
  } else {
    if (how.interpolation == Interpolation::kLinear && !how.antialias) x = std::clamp(x, 0.0f, last);
    filter_at(how, axis, x, taps.taps);
  }
}

// Adds the taps of LiteRT's kernel with their weights negated.
void subtract_kernel_taps(bool bilinear, KernelSetting setting, int64_t in, int64_t out, int64_t i,
                          std::vector<Tap>& taps) {
  const float ratio = setting.align_corners && out > 1 ? static_cast<float>(in - 1) / static_cast<float>(out - 1)
                                                       : static_cast<float>(in) / static_cast<float>(out);
  const float value = static_cast<float>(i);
  if (bilinear) {
    const float x = setting.half_pixel_centers ? (value + 0.5f) * ratio - 0.5f : value * ratio;
    const int64_t low = std::max<int64_t>(static_cast<int64_t>(std::floor(x)), 0);
    const int64_t high = std::min<int64_t>(static_cast<int64_t>(std::ceil(x)), in - 1);
    const float part = x - static_cast<float>(low);
    taps.push_back({low, part - 1});
    taps.push_back({high, -part});
    return;
  }
  const float x = (value + (setting.half_pixel_centers ? 0.5f : 0.0f)) * ratio;
  const int64_t at = static_cast<int64_t>(setting.align_corners ? std::round(x) : std::floor(x));
  taps.push_back({std::clamp<int64_t>(at, 0, in - 1), -1.0f});
}

}  // namespace

std::vector<Taps> onnx_taps(const Resampling& how, const ResampledAxis& axis) {
  std::vector<Taps> all(static_cast<size_t>(axis.out));
  for (int64_t i = 0; i < axis.out; ++i) onnx_taps_at(how, axis, i, all[static_cast<size_t>(i)]);
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
  if (axis.in == 1) return true;  // there is one element to take
  // Each position is compared, and a few bytes can ask for millions.
  constexpr int64_t kMostCompared = 1 << 22;
  if (axis.out > kMostCompared) return false;
  const bool bilinear = how.interpolation == Interpolation::kLinear;
  Taps difference;
  for (int64_t i = 0; i < axis.out; ++i) {
    onnx_taps_at(how, axis, i, difference);
    subtract_kernel_taps(bilinear, setting, axis.in, axis.out, i, difference.taps);
    merge_taps(difference.taps);
    for (const Tap& tap : difference.taps)
      if (std::fabs(tap.weight) > tolerance(tap.index)) return false;
  }
  return true;
}

}  // namespace lowtide::layout
