// SPDX-License-Identifier: Apache-2.0
// Resize of sizes that are known at run time only, where no kernel agrees with ONNX for all sizes: the model computes
// the positions by the formulas of resample.cc and gathers elements. About fifteen ops on vectors per axis.
#include "layout/lower/resize_plan.h"
#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

struct Sizes {
  Val in, out, scale;  // f32 scalars
};

Sizes sizes_of(Lowering& lo, const ResizeAxis& axis) {
  Builder& b = lo.b;
  Sizes sizes;
  sizes.in = b.cast(dim_as_scalar(lo, axis.in, DType::kInt32), DType::kFloat32);
  sizes.out = b.cast(dim_as_scalar(lo, axis.out, DType::kInt32), DType::kFloat32);
  sizes.scale = axis.from_scale ? b.scalar(axis.scale, DType::kFloat32) : b.div(sizes.out, sizes.in);
  return sizes;
}

// The result's positions in the input, f32 [out].
Val input_positions(Lowering& lo, Transform transform, const ResizeAxis& axis, const Sizes& sizes) {
  Builder& b = lo.b;
  Val i = b.cast(iota(lo, axis.out, DType::kInt32), DType::kFloat32);
  auto half_pixel = [&] { return b.sub(b.div(b.add(i, 0.5), sizes.scale), 0.5); };
  switch (transform) {
    case Transform::kAsymmetric:
      return b.div(i, sizes.scale);
    case Transform::kTfHalfPixelForNn:
      return b.div(b.add(i, 0.5), sizes.scale);
    case Transform::kHalfPixel:
      return half_pixel();
    case Transform::kPytorchHalfPixel: {
      const Val centres = half_pixel();
      return b.select(b.greater(sizes.out, b.scalar(1, DType::kFloat32)), centres, b.scalar(0, DType::kFloat32));
    }
    case Transform::kAlignCorners: {
      Val steps = b.maximum(b.sub(sizes.out, 1), b.scalar(1, DType::kFloat32));
      return b.div(b.mul(i, b.sub(sizes.in, 1)), steps);
    }
    case Transform::kHalfPixelSymmetric: {
      Val adjustment = b.div(sizes.out, b.mul(sizes.scale, sizes.in));
      const Val rest = b.sub(b.scalar(1, DType::kFloat32), adjustment);
      Val offset = b.mul(b.mul(sizes.in, 0.5), rest);
      return b.add(half_pixel(), offset);
    }
    case Transform::kTfCropAndResize:
      break;
  }
  lo.unsupported("tf_crop_and_resize of a dynamic dimension is not supported",
                 "fix the inputs' shapes with --shape INPUT=...");
}

Val nearest_positions(Lowering& lo, const ResizePlan& plan, const ResizeAxis& axis, Val at) {
  Builder& b = lo.b;
  switch (plan.how.nearest) {
    case NearestMode::kFloor:
      return b.floor(at);
    case NearestMode::kCeil:
      return b.ceil(at);
    case NearestMode::kRoundPreferCeil:
      return b.floor(b.add(at, 0.5));
    case NearestMode::kRoundPreferFloor:
      return b.ceil(b.sub(at, 0.5));
    case NearestMode::kSimple:
      break;
  }
  return axis.scale < 1 ? b.ceil(at) : b.floor(at);
}

}  // namespace

Val resized_at_run_time(Lowering& lo, const ResizePlan& plan, Val x, int at_axis) {
  Builder& b = lo.b;
  const ResizeAxis& axis = plan.axes[static_cast<size_t>(at_axis)];
  if (plan.how.interpolation == Interpolation::kCubic || plan.how.antialias)
    lo.unsupported("a cubic or antialiased resize of a dynamic dimension is not supported",
                   "fix the inputs' shapes with --shape INPUT=...");
  const Sizes sizes = sizes_of(lo, axis);
  Val last = b.sub(sizes.in, 1), zero = b.scalar(0, DType::kFloat32);
  auto inside = [&](Val v) { return b.minimum(b.maximum(v, zero), last); };
  auto picked = [&](Val v) { return b.gather(x, b.cast(v, DType::kInt32), at_axis); };
  Val at = input_positions(lo, plan.how.transform, axis, sizes);
  if (plan.how.interpolation == Interpolation::kNearest) return picked(inside(nearest_positions(lo, plan, axis, at)));
  at = inside(at);
  Val low = b.floor(at);
  Val part = b.sub(at, low);
  Val high = b.minimum(b.add(low, 1), last);
  // Along the axis: [out, 1, ..].
  std::vector<int> behind;
  for (int i = at_axis + 1; i < lo.rank(x); ++i) behind.push_back(i - at_axis);
  auto spread = [&](Val v) { return behind.empty() ? v : unsqueeze_axes(lo, v, behind); };
  Val rest = spread(b.sub(b.scalar(1, DType::kFloat32), part));
  part = spread(part);
  const Val above = b.mul(picked(high), part);
  return b.add(b.mul(picked(low), rest), above);
}

}  // namespace lowtide::layout
