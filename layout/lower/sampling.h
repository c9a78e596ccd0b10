// SPDX-License-Identifier: Apache-2.0
// Sampling an image at positions that are computed at run time: between its elements, by interpolation.
#pragma once

#include <span>

#include "layout/lower/lowering.h"

namespace lowtide::layout {

enum class Sampling { kNearest, kLinear, kCubic };
enum class Outside { kZeros, kBorder, kReflection };

struct Sampler {
  Sampling mode = Sampling::kLinear;
  Outside outside = Outside::kZeros;
  bool align_corners = false;  // reflection is about the outermost elements' centres, else about their outer edges
  bool largest = false;        // the largest of the weighted taps instead of their sum (RoiAlign's maximum)
  std::span<const Dim> sizes;  // of the image, the slowest axis first; symbols allowed
  bool fastest_first = false;  // positions name the fastest axis first
};

// `image` is [rows, C], an image's elements one after the other (or several images'); `first` is an i32 tensor that
// broadcasts to [N, Q] and names each sample's image by its first row, or absent. `at` is [N, Q, axes] f32: positions
// in elements. Gives [N, Q, C] in the image's dtype; only kNearest takes other than floats.
Val sampled(Lowering& lo, Val image, Val first, Val at, const Sampler& sampler);

}  // namespace lowtide::layout
