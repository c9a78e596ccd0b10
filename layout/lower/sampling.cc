// See sampling.h. All taps of all axes are computed at once, [N, Q, axes, taps], gathered by one GATHER and added up
// with their weights. Source: ONNX's GridSample.
#include "layout/lower/sampling.h"

#include <limits>

#include "layout/lower/extents.h"

namespace lowtide::layout {
namespace {

constexpr float kCubicA = -0.75f;

// A number for each axis, to broadcast to [N, Q, axes, taps].
Val for_axes(Builder& b, std::span<const float> numbers) {
  return b.constant(stream::recipe::floats(numbers, {static_cast<Dim>(numbers.size()), 1}));
}
Val for_taps(Builder& b, std::initializer_list<float> numbers) {
  const std::vector<float> list(numbers);
  return b.constant(stream::recipe::floats(list, {static_cast<Dim>(list.size())}));
}

struct Borders {
  Val low, last;                  // 0 and size - 1
  std::vector<float> min, range;  // what a reflection bounces between
};

Borders borders_of(Builder& b, const Sampler& sampler) {
  std::vector<float> last;
  Borders borders;
  for (int64_t size : sampler.sizes) {
    last.push_back(static_cast<float>(size - 1));
    borders.min.push_back(sampler.align_corners ? 0.0f : -0.5f);
    borders.range.push_back(static_cast<float>(sampler.align_corners ? size - 1 : size));
  }
  borders.low = b.scalar(0, DType::kFloat32);
  borders.last = for_axes(b, last);
  return borders;
}

Val clamped(Builder& b, Val at, const Borders& borders) { return b.minimum(b.maximum(at, borders.low), borders.last); }

// To and fro between min and min + range, as a triangle wave. An axis whose range is 0 has one element, at min.
Val bounced(Builder& b, Val at, const Borders& borders) {
  std::vector<float> period;
  for (float range : borders.range) period.push_back(range > 0 ? 2 * range : 1);
  Val min = for_axes(b, borders.min), range = for_axes(b, borders.range);
  Val way = b.floor_mod(b.abs(b.sub(at, min)), for_axes(b, period));
  return b.add(min, b.sub(range, b.abs(b.sub(way, range))));
}

// Taps are laid around a position as it is, and each is brought inside on its own. Positions far outside see nothing
// but zeros, or one border; kept near, they fit an i32. A reflection may as well move the position.
Val kept_near(Builder& b, Val at, const Sampler& sampler, const Borders& borders) {
  if (sampler.outside == Outside::kReflection) return bounced(b, at, borders);
  std::vector<float> far;
  for (int64_t size : sampler.sizes) far.push_back(static_cast<float>(size + 2));
  return b.minimum(b.maximum(at, b.scalar(-3, DType::kFloat32)), for_axes(b, far));
}

struct TapSet {
  Val places;   // f32 [N, Q, axes, taps], whole numbers, perhaps outside
  Val weights;  // the same shape; absent: 1
};

TapSet taps_of(Builder& b, Val at, Sampling mode) {
  if (mode == Sampling::kNearest) return {at, {}};
  const bool linear = mode == Sampling::kLinear;
  Val places = b.add(b.floor(at), linear ? for_taps(b, {0, 1}) : for_taps(b, {-1, 0, 1, 2}));
  Val distance = b.abs(b.sub(at, places));
  if (linear) return {places, b.sub(b.scalar(1, DType::kFloat32), distance)};
  // The cubic of the outer taps, the one of the inner ones: coefficients from the cube down.
  constexpr float a = kCubicA;
  Val w = b.mul(distance, for_taps(b, {a, a + 2, a + 2, a}));
  w = b.mul(b.add(w, for_taps(b, {-5 * a, -(a + 3), -(a + 3), -5 * a})), distance);
  w = b.mul(b.add(w, for_taps(b, {8 * a, 0, 0, 8 * a})), distance);
  return {places, b.add(w, for_taps(b, {-4 * a, 1, 1, -4 * a}))};
}

// [N, Q, axes, taps] -> [N, Q, taps ^ axes]: one value for each choice of a tap on every axis.
Val crossed(Lowering& lo, Val x, size_t axes, int64_t taps, bool multiply) {
  Builder& b = lo.b;
  const Shape shape = lo.shape(x);
  std::vector<Val> parts = b.split(x, std::vector<int64_t>(axes, 1), 2);
  Val all;
  for (size_t i = 0; i < axes; ++i) {
    Shape spread = {shape[0], shape[1]};
    for (size_t j = 0; j < axes; ++j) spread.push_back(i == j ? taps : 1);
    Val part = reshape_to(lo, parts[i], spread);
    if (!all)
      all = part;
    else
      all = multiply ? b.mul(all, part) : b.add(all, part);
  }
  int64_t count = 1;
  for (size_t i = 0; i < axes; ++i) count *= taps;
  return reshape_to(lo, all, std::vector<Dim>{shape[0], shape[1], count});
}

}  // namespace

Val sampled(Lowering& lo, Val image, Val first, Val at, const Sampler& sampler) {
  Builder& b = lo.b;
  const size_t axes = sampler.sizes.size();
  const int64_t taps = sampler.mode == Sampling::kNearest ? 1 : sampler.mode == Sampling::kLinear ? 2 : 4;
  const Borders borders = borders_of(b, sampler);
  const DType dtype = lo.dtype(image);
  at = add_ones(lo, at, {3});
  // The nearest element is chosen first, and then brought inside.
  if (sampler.mode == Sampling::kNearest) at = b.round(at);
  at = kept_near(b, at, sampler, borders);
  TapSet set = taps_of(b, at, sampler.mode);
  Val places = sampler.outside == Outside::kReflection ? bounced(b, set.places, borders) : set.places;
  places = clamped(b, places, borders);
  if (sampler.outside == Outside::kZeros) {
    Val inside = b.cast(b.equal(places, set.places), DType::kFloat32);
    set.weights = set.weights ? b.mul(set.weights, inside) : inside;
  }
  // Rows of the image.
  std::vector<int64_t> steps(axes, 1);
  for (size_t i = axes - 1; i-- > 0;) steps[i] = steps[i + 1] * sampler.sizes[i + 1];
  Val rows = b.mul(b.cast(places, DType::kInt32), b.reshape(b.i32(steps), {static_cast<Dim>(axes), 1}));
  rows = crossed(lo, rows, axes, taps, false);
  if (first) rows = b.add(rows, add_ones(lo, first, {lo.rank(first)}));
  Val values = b.gather(image, rows, 0);  // [N, Q, taps, C]
  if (!set.weights)
    return reshape_to(lo, values, std::vector<Dim>{b.dim(values, 0), b.dim(values, 1), b.dim(values, 3)});
  Val weights = add_ones(lo, crossed(lo, set.weights, axes, taps, true), {3});
  if (sampler.mode == Sampling::kNearest) {
    values = b.select(b.not_equal(weights, b.scalar(0, DType::kFloat32)), values, b.scalar(0, dtype));
    return reshape_to(lo, values, std::vector<Dim>{b.dim(values, 0), b.dim(values, 1), b.dim(values, 3)});
  }
  Val weighted = b.mul(values, b.cast(weights, dtype));
  return b.reduce(sampler.largest ? Kind::kReduceMax : Kind::kSum, weighted, std::vector<int>{2}, false);
}

}  // namespace lowtide::layout
