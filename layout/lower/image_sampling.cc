// SPDX-License-Identifier: Apache-2.0
// See image_sampling.h. The taps of all axes are computed together, [N, axes, taps, Q], gathered by one GATHER and
// summed with their weights. Samples are along the last axis because kernels compute rows: with the two coordinates
// there, each row had two elements. Source: ONNX's GridSample.
#include "layout/lower/image_sampling.h"

#include <algorithm>

#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

constexpr float kCubicA = -0.75f;
// The row offset of a position outside: its sum with the offsets of the other axes and the rows of zeros, each at most
// the rows of all images, stays below 0, and three of them fit the type. (An image has far fewer than 2^28 rows.)
constexpr int64_t kOutside = -(1 << 29), kOutsideInFloats = -(1 << 22);
// Rows are counted in floats where these hold them, because XNNPACK computes floats only, and GPU delegates take no
// SPLIT of integers.
constexpr Dim kMostInFloats = -kOutsideInFloats / 2;

// Numbers by axis, first axis first, in the order of the positions.
std::vector<Dim> in_order(std::span<const Dim> numbers, const Sampler& sampler) {
  std::vector<Dim> out(numbers.begin(), numbers.end());
  if (sampler.last_axis_first) std::reverse(out.begin(), out.end());
  return out;
}

// One number per axis, in a shape that broadcasts to [N, axes, taps, Q].
Val for_axes(Builder& b, std::span<const Dim> numbers, DType dtype) {
  return b.cast(b.reshape(b.dims(numbers), {static_cast<Dim>(numbers.size()), 1, 1}), dtype);
}
Val for_taps(Builder& b, std::initializer_list<float> numbers) {
  const std::vector<float> list(numbers);
  return b.constant(stream::recipe::floats(list, {static_cast<Dim>(list.size()), 1}));
}

struct BorderRule {
  Val low, last;   // 0 and size - 1
  Val min, range;  // the interval of the reflection
};

BorderRule borders_of(Builder& b, const Sampler& sampler) {
  Val size = for_axes(b, in_order(sampler.sizes, sampler), DType::kFloat32), last = b.sub(size, 1);
  return {b.scalar(0, DType::kFloat32), last, b.scalar(sampler.align_corners ? 0 : -0.5, DType::kFloat32),
          sampler.align_corners ? last : size};
}

Val clamped(Builder& b, Val at, const BorderRule& borders) {
  return b.minimum(b.maximum(at, borders.low), borders.last);
}

// Reflects positions into min .. min + range (a triangle wave). An axis with range 0 has one element, at min.
Val reflected(Builder& b, Val at, const BorderRule& borders) {
  Val period = b.maximum(b.mul(borders.range, 2), b.scalar(1, DType::kFloat32));
  Val phase = b.floor_mod(b.abs(b.sub(at, borders.min)), period);
  return b.add(borders.min, b.sub(borders.range, b.abs(b.sub(phase, borders.range))));
}

// Taps are computed around the unchanged position, and each is then moved inside. Positions far outside see only zeros
// or the border; they are clamped so that they fit an i32. For reflections the position itself is reflected.
Val clamped_near(Builder& b, Val at, const Sampler& sampler, const BorderRule& borders) {
  if (sampler.outside == Outside::kReflection) return reflected(b, at, borders);
  const Val most = b.add(borders.last, 3);
  return b.minimum(b.maximum(at, b.scalar(-3, DType::kFloat32)), most);
}

struct TapSet {
  Val places;   // f32 [N, axes, taps, Q], whole numbers, possibly outside the image
  Val weights;  // the same shape; absent: 1
};

TapSet taps_of(Builder& b, Val at, Sampling mode) {
  if (mode == Sampling::kNearest) return {at, {}};
  const bool linear = mode == Sampling::kLinear;
  Val places = b.add(b.floor(at), linear ? for_taps(b, {0, 1}) : for_taps(b, {-1, 0, 1, 2}));
  Val distance = b.abs(b.sub(at, places));
  if (linear) return {places, b.sub(b.scalar(1, DType::kFloat32), distance)};
  // One cubic polynomial for the outer taps, one for the inner ones, by Horner's rule.
  constexpr float a = kCubicA;
  Val w = b.mul(distance, for_taps(b, {a, a + 2, a + 2, a}));
  w = b.mul(b.add(w, for_taps(b, {-5 * a, -(a + 3), -(a + 3), -5 * a})), distance);
  w = b.mul(b.add(w, for_taps(b, {8 * a, 0, 0, 8 * a})), distance);
  return {places, b.add(w, for_taps(b, {-4 * a, 1, 1, -4 * a}))};
}

// [N, axes, taps, Q] -> [N, taps ^ axes, Q]: one value for each combination of taps.
Val crossed_taps(Lowering& lo, Val x, size_t axes, int64_t taps, bool multiply) {
  Builder& b = lo.b;
  const Shape shape = lo.shape(x);
  std::vector<Val> parts = b.split(x, static_cast<int64_t>(axes), 1, 1);
  Val all;
  for (size_t i = 0; i < axes; ++i) {
    Shape spread = {shape[0]};
    for (size_t j = 0; j < axes; ++j) spread.push_back(i == j ? taps : 1);
    spread.push_back(shape[3]);
    Val part = reshape_to(lo, parts[i], spread);
    if (!all)
      all = part;
    else
      all = multiply ? b.mul(all, part) : b.add(all, part);
  }
  int64_t count = 1;
  for (size_t i = 0; i < axes; ++i) count *= taps;
  return reshape_to(lo, all, std::vector<Dim>{shape[0], count, shape[3]});
}

// [N, taps, Q] as something that broadcasts to [N, taps, Q, C]. A kernel that repeats one number along a row takes a
// call for each row; where rows have few channels, a product with ones is faster.
Val for_channels(Lowering& lo, Val weights, Dim channels) {
  constexpr Dim kFewChannels = 8;
  Builder& b = lo.b;
  if (!stream::is_static(channels) || channels < 2 || channels > kFewChannels) return unsqueeze_axes(lo, weights, {3});
  const Val column = unsqueeze_axes(lo, weights, {3});
  return b.fully_connected(column, b.filled(1, DType::kFloat32, {channels, 1}), {}, true);
}

// The image, with at least one row of zeros before its first one. Returns how many.
Dim put_zeros_before(Lowering& lo, Val& image, const Sampler& sampler) {
  Builder& b = lo.b;
  const Dim rows = b.dim(image, 0), channels = b.dim(image, 1), area = b.graph.symbols.product(sampler.sizes);
  if (!stream::is_static(area) || area == 0 || rows != area) {
    image = b.pad(image, std::vector<int64_t>{1, 0}, std::vector<int64_t>{0, 0}, 0);
    return 1;
  }
  // One image: it has four axes where it comes from, as XNNPACK and GPU delegates want it for PAD.
  const Dim across = area / sampler.sizes[0];
  image = reshape_to(lo, image, std::vector<Dim>{1, sampler.sizes[0], across, channels});
  image = b.pad(image, std::vector<int64_t>{0, 1, 0, 0}, std::vector<int64_t>{0, 0, 0, 0}, 0);
  image = reshape_to(lo, image, std::vector<Dim>{area + across, channels});
  return across;
}

}  // namespace

ImageRows as_rows(Lowering& lo, Val x, Dim area) {
  Builder& b = lo.b;
  const Shape shape = lo.shape(x);
  ImageRows rows;
  rows.image =
      reshape_to(lo, b.transpose(x, {0, 2, 3, 1}), std::vector<Dim>{b.graph.symbols.mul(shape[0], area), shape[1]});
  if (shape[0] != 1) {
    const Val count = dim_as_scalar(lo, area, DType::kInt32);
    rows.first = b.mul(unsqueeze_axes(lo, iota(lo, shape[0], DType::kInt32), {1}), count);
  }
  return rows;
}

Val sampled(Lowering& lo, Val image, Val first, Val at, const Sampler& sampler) {
  Builder& b = lo.b;
  const size_t axes = sampler.sizes.size();
  const int64_t taps = sampler.mode == Sampling::kNearest ? 1 : sampler.mode == Sampling::kLinear ? 2 : 4;
  const BorderRule borders = borders_of(b, sampler);
  const DType dtype = lo.dtype(image);
  at = unsqueeze_axes(lo, at, {2});
  // In mode nearest the position is rounded before it is moved inside.
  if (sampler.mode == Sampling::kNearest) at = b.round(at);
  at = clamped_near(b, at, sampler, borders);
  TapSet set = taps_of(b, at, sampler.mode);
  Val places = sampler.outside == Outside::kReflection ? reflected(b, set.places, borders) : set.places;
  places = clamped(b, places, borders);
  // Rows of the image. Positions outside read an extra row of zeros: a weight of 0 would turn infinities into NaN.
  std::vector<Dim> steps(axes, 1);
  for (size_t i = axes - 1; i-- > 0;) steps[i] = b.graph.symbols.mul(steps[i + 1], sampler.sizes[i + 1]);
  const bool zeros = sampler.outside == Outside::kZeros;
  const Dim all_rows = b.dim(image, 0);
  const bool fits_float = stream::is_static(all_rows) && all_rows <= kMostInFloats;
  const DType counted = fits_float ? DType::kFloat32 : DType::kInt32;
  Val parts = b.mul(b.cast(places, counted), for_axes(b, in_order(steps, sampler), counted));
  if (zeros)
    parts = b.select(b.equal(places, set.places), parts,
                     b.scalar(static_cast<double>(fits_float ? kOutsideInFloats : kOutside), counted));
  Val rows = crossed_taps(lo, parts, axes, taps, false);
  if (first) rows = b.add(rows, b.cast(unsqueeze_axes(lo, first, {1}), counted));
  if (zeros) {
    const Dim before = put_zeros_before(lo, image, sampler);
    rows = b.maximum(b.add(rows, b.scalar(static_cast<double>(before), counted)), b.scalar(0, counted));
  }
  Val values = b.gather(image, b.cast(rows, DType::kInt32), 0);  // [N, taps, Q, C]
  if (!set.weights) return squeeze_axes(lo, values, {1});
  const Val weights = for_channels(lo, crossed_taps(lo, set.weights, axes, taps, true), b.dim(image, 1));
  const Val weighted = b.mul(values, b.cast(weights, dtype));
  return b.reduce(sampler.largest ? Kind::kReduceMax : Kind::kSum, weighted, std::vector<int>{1}, false);
}

}  // namespace lowtide::layout
