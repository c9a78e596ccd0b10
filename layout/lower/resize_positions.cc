// SPDX-License-Identifier: Apache-2.0
// Resize where sizes, scales or regions are known at run time only, and no kernel agrees with ONNX for all of them: the
// model computes the positions by the formulas of resample.cc and gathers elements. About fifteen operators on vectors
// an axis.
#include <array>
#include <string>

#include "layout/lower/attributes.h"
#include "layout/lower/resize_plan.h"
#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

// f32 scalars, but `index`: 0, 1, ... out - 1, f32 [out].
struct Sizes {
  Val in, out, scale, index;
  Val start, end;  // of the region, kTfCropAndResize only
};

// The result's positions in the input, f32 [out].
Val original_positions(Lowering& lo, Transform transform, const Sizes& sizes) {
  Builder& b = lo.b;
  const Val one = b.scalar(1, DType::kFloat32), i = sizes.index;
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
      return b.select(b.greater(sizes.out, one), centres, b.scalar(0, DType::kFloat32));
    }
    case Transform::kAlignCorners: {
      Val steps = b.maximum(b.sub(sizes.out, 1), one);
      return b.div(b.mul(i, b.sub(sizes.in, 1)), steps);
    }
    case Transform::kHalfPixelSymmetric: {
      Val adjustment = b.div(sizes.out, b.mul(sizes.scale, sizes.in));
      const Val rest = b.sub(one, adjustment);
      Val offset = b.mul(b.mul(sizes.in, 0.5), rest);
      return b.add(half_pixel(), offset);
    }
    case Transform::kTfCropAndResize:
      break;
  }
  if (!sizes.start)
    lo.unsupported("tf_crop_and_resize of a dynamic dimension is not supported",
                   "fix the inputs' shapes with --shape INPUT=...");
  const Val last = b.sub(sizes.in, 1);
  const Val steps = b.maximum(b.sub(sizes.out, 1), one);
  Val along = b.div(b.mul(b.mul(i, b.sub(sizes.end, sizes.start)), last), steps);
  along = b.add(along, b.mul(sizes.start, last));
  const Val centre = b.mul(b.mul(b.add(sizes.start, sizes.end), 0.5), last);
  return b.select(b.greater(sizes.out, one), along, centre);
}

Val positions_of(Lowering& lo, Transform transform, const Sizes& sizes, bool may_stay) {
  Builder& b = lo.b;
  const Val at = original_positions(lo, transform, sizes);
  if (!may_stay || transform == Transform::kTfCropAndResize) return at;
  // ONNX Runtime leaves an axis alone whose scale is 1, whatever the transformation.
  const Val one = b.scalar(1, DType::kFloat32);
  const Val is_one = b.equal(sizes.scale, one);
  const Val stays = b.logical_and(is_one, b.equal(sizes.in, sizes.out));
  return b.select(stays, sizes.index, at);
}

Val nearest_positions(Lowering& lo, NearestMode nearest, const Sizes& sizes, Val at) {
  Builder& b = lo.b;
  switch (nearest) {
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
  if (const auto scale = lo.numbers(sizes.scale)) return (*scale)[0] < 1 ? b.ceil(at) : b.floor(at);
  const Val shrinks = b.less(sizes.scale, b.scalar(1, DType::kFloat32));
  const Val up = b.ceil(at);
  return b.select(shrinks, up, b.floor(at));
}

// An axis of x, and what the elements of its result are gathered from.
class Axis {
 public:
  Axis(Lowering& lo, const Resampling& how, Val x, int axis, const Sizes& sizes)
      : lo_(lo), b_(lo.b), how_(how), x_(x), axis_(axis), sizes_(sizes), last_(b_.sub(sizes.in, 1)) {}

  Val resized(Val at) {
    switch (how_.interpolation) {
      case Interpolation::kNearest:
        return picked(nearest_positions(lo_, how_.nearest, sizes_, at));
      case Interpolation::kLinear:
        return linear(inside(at));
      case Interpolation::kCubic:
        break;
    }
    return cubic(at);
  }

  // Of a vector along the axis: [out, 1, ...], to be multiplied with.
  Val spread(Val v) {
    std::vector<int> behind;
    for (int i = axis_ + 1; i < lo_.rank(x_); ++i) behind.push_back(i - axis_);
    return behind.empty() ? v : unsqueeze_axes(lo_, v, behind);
  }
  Val is_outside(Val at) {
    const Val below = b_.less(at, zero());
    return b_.logical_or(below, b_.greater(at, last_));
  }

 private:
  Val zero() { return b_.scalar(0, DType::kFloat32); }
  Val inside(Val v) { return b_.minimum(b_.maximum(v, zero()), last_); }
  Val picked(Val v) { return b_.gather(x_, b_.cast(inside(v), DType::kInt32), axis_); }

  Val linear(Val at) {
    Val low = b_.floor(at);
    Val part = b_.sub(at, low);
    Val high = b_.add(low, 1);
    Val rest = spread(b_.sub(b_.scalar(1, DType::kFloat32), part));
    part = spread(part);
    const Val above = b_.mul(picked(high), part);
    return b_.add(b_.mul(picked(low), rest), above);
  }

  // Four elements around each position, by the filter of resample.cc.
  Val cubic(Val at) {
    const Val low = b_.floor(at), part = b_.sub(at, low);
    Val sum, total;
    for (int i = -1; i <= 2; ++i) {
      const Val index = b_.add(low, static_cast<double>(i));
      Val weight = cubic_weight(b_.abs(b_.sub(part, static_cast<double>(i))), i == 0 || i == 1);
      if (how_.exclude_outside) {
        const Val outside = is_outside(index);
        weight = b_.select(outside, zero(), weight);
        total = total ? b_.add(total, weight) : weight;
      }
      const Val found = picked(index);
      const Val element = b_.mul(found, spread(weight));
      sum = sum ? b_.add(sum, element) : element;
    }
    return total ? b_.div(sum, spread(total)) : sum;
  }

  // At a distance d from 0 to 1, or from 1 to 2.
  Val cubic_weight(Val d, bool near) {
    const double a = how_.cubic_a;
    if (near) {
      const Val inner = b_.mul(b_.sub(b_.mul(d, a + 2), a + 3), d);
      return b_.add(b_.mul(inner, d), 1);
    }
    const Val inner = b_.add(b_.mul(b_.sub(d, 5), d), 8);
    return b_.mul(b_.sub(b_.mul(inner, d), 4), a);
  }

  Lowering& lo_;
  Builder& b_;
  const Resampling& how_;
  Val x_;
  int axis_;
  const Sizes& sizes_;
  Val last_;
};

// Whether the formula of the positions changes an axis whose extent stays, which ONNX Runtime copies: it adds half a
// pixel, or, on long axes, a rounding error makes the nearest element another one.
bool moves_at_scale_1(const Resampling& how) {
  return how.transform == Transform::kTfHalfPixelForNn ||
         (how.transform == Transform::kAlignCorners && how.interpolation == Interpolation::kNearest);
}

void refuse_antialias(Lowering& lo, const Resampling& how) {
  if (how.antialias)
    lo.unsupported("an antialiased resize to a size that is known at run time only is not supported",
                   "fix the inputs' shapes with --shape INPUT=..., and make 'scales' or 'sizes' an initializer");
}

}  // namespace

Val resized_at_run_time(Lowering& lo, const ResizePlan& plan, Val x, int at_axis) {
  refuse_antialias(lo, plan.how);
  Builder& b = lo.b;
  const ResizeAxis& axis = plan.axes[static_cast<size_t>(at_axis)];
  Sizes sizes;
  sizes.in = b.cast(dim_as_scalar(lo, axis.in, DType::kInt32), DType::kFloat32);
  sizes.out = b.cast(dim_as_scalar(lo, axis.out, DType::kInt32), DType::kFloat32);
  sizes.scale = axis.from_scale ? b.scalar(axis.scale, DType::kFloat32) : b.div(sizes.out, sizes.in);
  sizes.index = b.cast(iota(lo, axis.out, DType::kInt32), DType::kFloat32);
  const bool may_stay = !axis.from_scale && moves_at_scale_1(plan.how);
  return Axis(lo, plan.how, x, at_axis, sizes).resized(positions_of(lo, plan.how.transform, sizes, may_stay));
}

namespace {

// One scale for all axes, and the sizes that it gives.
void keep_aspect_at_run_time(Lowering& lo, const std::string& policy, std::vector<Sizes>& sizes) {
  Builder& b = lo.b;
  if (policy == "stretch" || sizes.empty()) return;
  Val scale = sizes.front().scale;
  for (const Sizes& some : sizes)
    scale = policy == "not_larger" ? b.minimum(scale, some.scale) : b.maximum(scale, some.scale);
  for (Sizes& some : sizes) {
    some.scale = scale;
    some.out = b.floor(b.add(b.mul(scale, some.in), 0.5));
  }
}

}  // namespace

Val resized_by_operands(Lowering& lo, const ResizeOperands& operands, Val x) {
  const Resampling& how = operands.how;
  refuse_antialias(lo, how);
  Builder& b = lo.b;
  const bool from_scales = static_cast<bool>(operands.scales);
  const Val listed = b.cast(from_scales ? operands.scales : operands.sizes, DType::kFloat32);
  const Val roi = operands.roi ? b.cast(operands.roi, DType::kFloat32) : Val();
  const auto scales = from_scales ? lo.numbers(listed) : std::nullopt;
  auto element = [&](Val list, size_t i) {
    const std::array begin = {static_cast<int64_t>(i)};
    const std::array<Dim, 1> size = {1};
    return as_scalar(lo, b.slice(list, begin, size));
  };
  std::vector<Sizes> sizes(operands.axes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    Sizes& some = sizes[i];
    some.in = b.cast(dim_as_scalar(lo, lo.b.dim(x, operands.axes[i]), DType::kInt32), DType::kFloat32);
    const Val given = element(listed, i);
    some.scale = from_scales ? given : b.div(given, some.in);
    some.out = from_scales ? b.floor(b.mul(given, some.in)) : given;
    if (!roi) continue;
    some.start = element(roi, i);
    some.end = element(roi, sizes.size() + i);
  }
  if (!from_scales) keep_aspect_at_run_time(lo, operands.policy, sizes);
  Val outside;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (scales && (*scales)[i] == 1 && !roi) continue;
    Sizes& some = sizes[i];
    const Val length = b.cast(some.out, DType::kInt32);
    const Val first = b.scalar(0, DType::kInt32), step = b.scalar(1, DType::kInt32);
    some.index = b.cast(b.range(first, length, step), DType::kFloat32);
    const Val at = positions_of(lo, how.transform, some, true);
    Axis axis(lo, how, x, operands.axes[i], some);
    if (how.transform == Transform::kTfCropAndResize) {
      const Val here = axis.spread(axis.is_outside(at));
      outside = outside ? b.logical_or(outside, here) : here;
    }
    x = axis.resized(at);
  }
  return outside ? b.select(outside, b.scalar_like(operands.extrapolation, x), x) : x;
}

}  // namespace lowtide::layout
