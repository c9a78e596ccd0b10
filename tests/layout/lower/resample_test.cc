// SPDX-License-Identifier: Apache-2.0
// Positions and weights along one axis, against values worked out by hand from the two specifications.
#include "layout/lower/resample.h"

#include <gtest/gtest.h>

namespace lowtide::layout {
namespace {

std::vector<int64_t> nearest(Resampling how, ResampledAxis axis) {
  std::vector<int64_t> indices;
  for (const Taps& taps : onnx_taps(how, axis)) indices.push_back(taps.taps.front().index);
  return indices;
}
using Indices = std::vector<int64_t>;

TEST(Resample, TiesOfNearest) {
  Resampling how{.transform = Transform::kAsymmetric};
  const ResampledAxis half{.in = 6, .out = 3, .scale = 0.4f};  // positions 0, 2.5, 5
  how.nearest = NearestMode::kRoundPreferFloor;
  EXPECT_EQ(nearest(how, half), (Indices{0, 2, 5}));
  how.nearest = NearestMode::kRoundPreferCeil;
  EXPECT_EQ(nearest(how, half), (Indices{0, 3, 5}));
  how.nearest = NearestMode::kSimple;  // version 10: up where the axis shrinks
  EXPECT_EQ(nearest(how, half), (Indices{0, 3, 5}));
  EXPECT_EQ(nearest(how, {.in = 2, .out = 5, .scale = 2.5f}), (Indices{0, 0, 0, 1, 1}));
}

TEST(Resample, TheScaleCountsAndNotTheRatioOfSizes) {
  const Resampling how{.interpolation = Interpolation::kLinear};
  EXPECT_FALSE(kernel_agrees(how, {.in = 10, .out = 17, .scale = 1.75f}, {.half_pixel_centers = true}));
  EXPECT_TRUE(kernel_agrees(how, {.in = 10, .out = 17, .scale = 1.7f}, {.half_pixel_centers = true}));
}

TEST(Resample, KernelsThatMatchAreRecognised) {
  for (int64_t n : {1, 2, 5, 37, 513}) {
    const ResampledAxis twice{.in = n, .out = 2 * n, .scale = 2};
    Resampling how{.interpolation = Interpolation::kLinear};
    EXPECT_TRUE(kernel_agrees(how, twice, {.half_pixel_centers = true}));
    how.transform = Transform::kAlignCorners;
    EXPECT_TRUE(kernel_agrees(how, twice, {.align_corners = true}));
    how = {.transform = Transform::kAsymmetric, .nearest = NearestMode::kFloor};
    EXPECT_TRUE(kernel_agrees(how, twice, {}));
    // TFLite's half pixels round up at ties, ONNX's default down: 5 to 3 meets one.
  }
  const Resampling how{};
  EXPECT_EQ(nearest(how, {.in = 4, .out = 2, .scale = 0.5f}), (Indices{0, 2}));
  EXPECT_FALSE(kernel_agrees(how, {.in = 4, .out = 2, .scale = 0.5f}, {.half_pixel_centers = true}));
}

TEST(Resample, WeightsOutsideTheImageAreClampedOrDropped) {
  Resampling how{.interpolation = Interpolation::kCubic, .transform = Transform::kAsymmetric, .cubic_a = -0.5f};
  const ResampledAxis axis{.in = 3, .out = 6, .scale = 2};
  auto taps = onnx_taps(how, axis)[1].taps;  // position 0.5: weights -1/16, 9/16, 9/16, -1/16 of -1, 0, 1, 2
  ASSERT_EQ(taps.size(), 3u);
  EXPECT_FLOAT_EQ(taps[0].weight, 0.5f);
  EXPECT_FLOAT_EQ(taps[1].weight, 0.5625f);
  EXPECT_FLOAT_EQ(taps[2].weight, -0.0625f);
  how.exclude_outside = true;
  taps = onnx_taps(how, axis)[1].taps;
  EXPECT_FLOAT_EQ(taps[0].weight, 9.0f / 17);
  EXPECT_FLOAT_EQ(taps[2].weight, -1.0f / 17);
}

TEST(Resample, AntialiasingWidensTheFilter) {
  const Resampling how{.interpolation = Interpolation::kLinear, .antialias = true};
  const auto taps = onnx_taps(how, {.in = 8, .out = 4, .scale = 0.5f})[1].taps;  // around 2.5: 1, 2, 3, 4
  ASSERT_EQ(taps.size(), 4u);
  EXPECT_EQ(taps[0].index, 1);
  EXPECT_FLOAT_EQ(taps[0].weight, 0.125f);
  EXPECT_FLOAT_EQ(taps[1].weight, 0.375f);
}

TEST(Resample, CropAndResizeMarksPositionsOutside) {
  const Resampling how{.interpolation = Interpolation::kLinear, .transform = Transform::kTfCropAndResize};
  const auto taps = onnx_taps(how, {.in = 5, .out = 3, .scale = 0.6f, .roi_start = 0.5f, .roi_end = 1.5f});  // 2, 4, 6
  EXPECT_FALSE(taps[0].outside);
  EXPECT_FALSE(taps[1].outside);
  EXPECT_TRUE(taps[2].outside);
}

}  // namespace
}  // namespace lowtide::layout
