// SPDX-License-Identifier: Apache-2.0
// Resize and Upsample. TFLite resizes two axes of an image, nearest or linear, and computes positions from the ratio of
// the sizes. ONNX resizes any axes, with seven coordinate transformations and a given scale, which may differ from that
// ratio. So each axis is compared with what the kernels compute (resample.h), and RESIZE_* is used where they agree.
// Otherwise nearest is a GATHER by constant indices, and linear and cubic are products with small constant matrices.
//
// For dynamic sizes the kernel is used where it agrees with ONNX for every size; otherwise the model computes the
// positions, and also those of long axes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "layout/lower/resize_plan.h"

namespace lowtide::layout {
namespace {

constexpr Dim kLongestListed = 1 << 16;      // the positions of an axis are held in memory
constexpr Dim kLongestResized = 1 << 24;     // positions are f32
constexpr int64_t kLargestMatrix = 1 << 18;  // elements of an interpolation matrix; larger ones are mostly zeros
// Positions whose elements one product makes: their matrix has few zeros. Of 8 to 128, 16 are the fastest (3000 rows of
// 4000 elements to 224: 18 ms; GATHERs take 230 ms, one matrix 121 ms), and 32 are as good with half the operators.
constexpr size_t kBlock = 32;
constexpr size_t kFewTaps = 4;  // of one position without antialiasing
constexpr KernelSetting kSettings[] = {{false, false}, {false, true}, {true, false}};

bool is_long(const ResizeAxis& axis) { return axis.known() && std::max(axis.in, axis.out) > kLongestListed; }

// Whether the positions of the axis are constants that lowering lists.
bool lists_positions(const ResizeAxis& axis) { return axis.known() && !is_long(axis); }

// Whether the kernel agrees with ONNX for every value of the symbols.
bool fits_all_sizes(Lowering& lo, const ResizePlan& plan, const ResizeAxis& axis, KernelSetting setting) {
  core::Symbols& symbols = lo.b.graph.symbols;
  const bool bilinear = plan.how.interpolation == Interpolation::kLinear;
  const std::optional<Dim> up = symbols.exact_div(axis.out, axis.in), down = symbols.exact_div(axis.in, axis.out);
  const bool by_whole = (up && !core::is_symbol(*up)) || (down && !core::is_symbol(*down));
  if (!by_whole) {  // linear positions are the same formula; rounding of nearest is not
    if (!bilinear || axis.from_scale || plan.how.antialias) return false;
    return (plan.how.transform == Transform::kAsymmetric && !setting.align_corners && !setting.half_pixel_centers) ||
           (plan.how.transform == Transform::kHalfPixel && setting.half_pixel_centers) ||
           (plan.how.transform == Transform::kAlignCorners && setting.align_corners);
  }
  const int64_t times = up && !core::is_symbol(*up) ? *up : *down;
  const bool grows = up && !core::is_symbol(*up);
  if (times > kLongestListed) return false;
  for (int64_t n : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 31, 100, 257, 1000, 2047}) {
    if (n * times > kLongestListed) break;
    ResampledAxis sample{.in = grows ? n : n * times, .out = grows ? n * times : n};
    sample.scale = static_cast<float>(sample.out) / static_cast<float>(sample.in);
    if (!kernel_agrees(plan.how, sample, setting)) return false;
  }
  return true;
}

bool fits(Lowering& lo, const ResizePlan& plan, const ResizeAxis& axis, KernelSetting setting) {
  if (plan.how.interpolation == Interpolation::kCubic || axis.out == 0 || axis.in == 0) return false;
  if (!axis.known())
    return plan.how.transform != Transform::kTfCropAndResize && fits_all_sizes(lo, plan, axis, setting);
  return kernel_agrees(plan.how, axis.resampled(), setting);
}

// ---- composing ----

// RESIZE_* along axes `first` and, unless it is -1, `second`: the other axes are the batch and, the last one, the
// channels.
Val by_kernel(Lowering& lo, const ResizePlan& plan, Val x, int first, int second, KernelSetting setting) {
  Builder& b = lo.b;
  core::Symbols& symbols = b.graph.symbols;
  const int rank = lo.rank(x);
  Perm perm;
  for (int i = 0; i < rank; ++i)
    if (i != first && i != second) perm.push_back(i);
  const int channels = perm.empty() ? -1 : perm.back();
  if (channels >= 0) perm.pop_back();
  perm.push_back(first);
  if (second >= 0) perm.push_back(second);
  if (channels >= 0) perm.push_back(channels);
  x = b.transpose(x, perm);
  Shape moved = lo.shape(x);
  const size_t at = moved.size() - (channels >= 0 ? 1 : 0) - (second >= 0 ? 2 : 1);
  const Dim batch = symbols.product(std::span(moved).first(at));
  const Dim last = channels >= 0 ? moved.back() : 1;
  const ResizeAxis& h = plan.axes[static_cast<size_t>(first)];
  const Dim width = second >= 0 ? moved[at + 1] : 1;
  const Dim out_width = second >= 0 ? plan.axes[static_cast<size_t>(second)].out : 1;
  x = b.reshape(x, {batch, moved[at], width, last});
  Val size = b.dims(std::vector<Dim>{h.out, out_width});
  const core::ResizeOptions options{setting.align_corners, setting.half_pixel_centers};
  x = plan.how.interpolation == Interpolation::kLinear ? b.resize_bilinear(x, size, options)
                                                       : b.resize_nearest_neighbor(x, size, options);
  moved[at] = h.out;
  if (second >= 0) moved[at + 1] = out_width;
  return b.transpose(b.reshape(x, moved), stream::inverse(perm));
}

Val by_gather(Lowering& lo, Val x, const std::vector<Taps>& taps, int axis) {
  std::vector<int64_t> indices;
  for (const Taps& tap : taps) indices.push_back(tap.taps.front().index);
  return lo.b.gather(x, lo.b.i32(indices), axis);
}

using TapsList = std::span<const Taps>;

// The axis, which is the last or the one before it, times a matrix [out, in]: as FULLY_CONNECTED's weights, or from the
// left. Elements of `x` before `first` have been cut off.
Val by_matrix(Lowering& lo, Val x, TapsList taps, int axis, int64_t first = 0) {
  Builder& b = lo.b;
  const int64_t in = b.dim(x, axis), out = static_cast<int64_t>(taps.size());
  std::vector<float> weights(static_cast<size_t>(in * out), 0);
  for (int64_t row = 0; row < out; ++row)
    for (const Tap& tap : taps[static_cast<size_t>(row)].taps)
      weights[static_cast<size_t>(row * in + tap.index - first)] = tap.weight;
  const Val matrix = b.constant(stream::recipe::floats(weights, {out, in}));
  return axis == lo.rank(x) - 1 ? b.fully_connected(x, matrix, {}, true) : b.batch_matmul(matrix, x);
}

// The same of kBlock positions at a time: each product takes only the elements that contribute to its positions.
Val by_blocks(Lowering& lo, Val x, TapsList taps, int axis) {
  Builder& b = lo.b;
  std::vector<int64_t> begin(lo.shape(x).size(), 0), end(begin.size(), INT32_MAX), stride(begin.size(), 1);
  std::vector<Val> parts;
  for (size_t from = 0; from < taps.size(); from += kBlock) {
    const TapsList some = taps.subspan(from, std::min(kBlock, taps.size() - from));
    int64_t first = b.dim(x, axis) - 1, last = 0;
    for (const Taps& each : some) {
      if (each.taps.empty()) continue;
      first = std::min(first, each.taps.front().index);
      last = std::max(last, each.taps.back().index);
    }
    if (first > last) first = last;  // all zeros
    begin[static_cast<size_t>(axis)] = first;
    end[static_cast<size_t>(axis)] = last + 1;
    parts.push_back(by_matrix(lo, b.strided_slice(x, begin, end, stride), some, axis, first));
  }
  return b.concat(parts, axis);
}

size_t most_taps(TapsList taps) {
  size_t most = 0;
  for (const Taps& some : taps) most = std::max(most, some.taps.size());
  return most;
}

// Gathers and weights the first taps of all positions, then the second ones, and so on.
Val by_gathers(Lowering& lo, Val x, TapsList taps, int axis) {
  Builder& b = lo.b;
  Val sum;
  for (size_t i = 0, most = most_taps(taps); i < most; ++i) {
    std::vector<int64_t> indices;
    std::vector<float> weights;
    for (const Taps& some : taps) {
      const Tap tap = i < some.taps.size() ? some.taps[i] : Tap{0, 0};
      indices.push_back(tap.index);
      weights.push_back(tap.weight);
    }
    Shape along(static_cast<size_t>(lo.rank(x) - axis), 1);
    along[0] = static_cast<Dim>(taps.size());
    Val part = b.mul(b.gather(x, b.i32(indices), axis), b.constant(stream::recipe::floats(weights, along)));
    sum = sum ? b.add(sum, part) : part;
  }
  return sum;
}

// Few taps read little of a long axis. Of many, the form with fewer operators: three a tap, or two a block.
bool are_gathered(TapsList taps) {
  const size_t most = most_taps(taps), blocks = (taps.size() + kBlock - 1) / kBlock;
  return most <= kFewTaps || 3 * most <= 2 * blocks;
}

Val weighted(Lowering& lo, Val x, TapsList taps, int axis) {
  Builder& b = lo.b;
  const bool is_small = static_cast<int64_t>(taps.size()) <= kLargestMatrix / b.dim(x, axis);
  if (!is_small && are_gathered(taps)) return by_gathers(lo, x, taps, axis);
  const int rank = lo.rank(x);
  const auto product = [&](Val image, int at) {
    return is_small ? by_matrix(lo, image, taps, at) : by_blocks(lo, image, taps, at);
  };
  if (axis == rank - 1 || (axis == rank - 2 && rank <= 5)) return product(x, axis);
  Perm perm = stream::identity_perm(rank);
  std::rotate(perm.begin() + axis, perm.begin() + axis + 1, perm.end());
  return b.transpose(product(b.transpose(x, perm), rank - 1), stream::inverse(perm));
}

// Positions outside the input get extrapolation_value.
Val extrapolated(Lowering& lo, const ResizePlan& plan, Val y) {
  Builder& b = lo.b;
  Val outside;
  for (size_t i = 0; i < plan.axes.size(); ++i) {
    if (!plan.axes[i].changes) continue;
    std::vector<int64_t> flags;
    for (const Taps& taps : onnx_taps(plan.how, plan.axes[i].resampled())) flags.push_back(taps.outside ? 1 : 0);
    if (std::find(flags.begin(), flags.end(), 1) == flags.end()) continue;
    Shape shape(plan.axes.size(), 1);
    shape[i] = plan.axes[i].out;
    Val mask = b.constant(stream::recipe::ints(flags, DType::kBool, shape));
    outside = outside ? b.logical_or(outside, mask) : mask;
  }
  return outside ? b.select(outside, b.scalar_like(plan.extrapolation, y), y) : y;
}

// ONNX Runtime's results for integers: truncated, or, with antialiasing, rounded and clamped to the dtype's range.
Val as_dtype(Lowering& lo, Val y, DType dtype, bool antialias) {
  if (stream::is_float(dtype) || !antialias) return lo.b.cast(y, dtype);
  y = lo.b.floor(lo.b.add(y, 0.5));
  if (dtype == DType::kUint8) y = lo.b.minimum(lo.b.maximum(y, lo.b.scalar_like(0, y)), lo.b.scalar_like(255, y));
  if (dtype == DType::kInt8) y = lo.b.minimum(lo.b.maximum(y, lo.b.scalar_like(-128, y)), lo.b.scalar_like(127, y));
  return lo.b.cast(y, dtype);
}

void check(Lowering& lo, const ResizePlan& plan, Val x) {
  const bool nearest = plan.how.interpolation == Interpolation::kNearest;
  if (plan.how.antialias && nearest) lo.malformed("attribute 'antialias' needs mode 'linear' or 'cubic'");
  if (!nearest && lo.dtype(x) == DType::kBool) lo.malformed("bool can be resized in mode 'nearest' only");
  for (const ResizeAxis& axis : plan.axes) {
    if (axis.changes && (axis.in == 0 || axis.out == 0))
      lo.unsupported("resizing an axis from or to 0 elements is not supported");
    if (!axis.changes || !is_long(axis)) continue;
    const bool needs_list = plan.how.antialias || plan.how.transform == Transform::kTfCropAndResize;
    const Dim most = needs_list ? kLongestListed : kLongestResized;
    if (std::max(axis.in, axis.out) > most)
      lo.unsupported(fmt::format("resizing an axis of {} to {} elements{} is not supported: the most is {}", axis.in,
                                 axis.out, needs_list ? " with antialiasing or a region" : "", most));
  }
}

bool kernel_takes(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat16 || dtype == DType::kBFloat16 || dtype == DType::kUint8 ||
         dtype == DType::kInt8 || dtype == DType::kInt16;
}

// Resizes pairs of axes, from the last one on, that agree with the kernel in the same setting; the others are composed.
Val resampled(Lowering& lo, const ResizePlan& plan, Val x) {
  const bool nearest = plan.how.interpolation == Interpolation::kNearest;
  std::vector<int> open;
  for (int i = static_cast<int>(plan.axes.size()) - 1; i >= 0; --i)
    if (plan.axes[static_cast<size_t>(i)].changes) open.push_back(i);
  auto axis_at = [&](int i) -> const ResizeAxis& { return plan.axes[static_cast<size_t>(i)]; };
  while (!open.empty()) {
    const int last = open.front();
    open.erase(open.begin());
    int partner = -1;
    const KernelSetting* chosen = nullptr;
    for (const KernelSetting& setting : kSettings) {
      if (partner >= 0 || !kernel_takes(lo.dtype(x)) || !fits(lo, plan, axis_at(last), setting)) continue;
      chosen = &setting;
      auto fitting = std::find_if(open.begin(), open.end(), [&](int i) { return fits(lo, plan, axis_at(i), setting); });
      if (fitting != open.end()) partner = *fitting;
    }
    std::erase(open, partner);
    if (chosen && (partner >= 0 || !nearest || !lists_positions(axis_at(last)))) {
      x = by_kernel(lo, plan, x, partner >= 0 ? partner : last, partner >= 0 ? last : -1, *chosen);
      continue;
    }
    if (!lists_positions(axis_at(last))) {
      x = resized_at_run_time(lo, plan, x, last);
      continue;
    }
    const std::vector<Taps> taps = onnx_taps(plan.how, axis_at(last).resampled());
    x = nearest ? by_gather(lo, x, taps, last) : weighted(lo, x, taps, last);
  }
  return x;
}

void finish_resize(Lowering& lo, const ResizePlan& plan, Val x) {
  check(lo, plan, x);
  const DType dtype = lo.dtype(x);
  const bool nearest = plan.how.interpolation == Interpolation::kNearest;
  const bool changes =
      std::any_of(plan.axes.begin(), plan.axes.end(), [](const ResizeAxis& axis) { return axis.changes; });
  if (!changes) return lo.output(0, x);
  Val y = resampled(lo, plan, nearest ? x : lo.b.cast(x, DType::kFloat32));
  if (plan.how.transform == Transform::kTfCropAndResize) y = extrapolated(lo, plan, y);
  lo.output(0, nearest ? y : as_dtype(lo, y, dtype, plan.how.antialias));
}

void finish_at_run_time(Lowering& lo, const ResizeOperands& operands, Val x) {
  const DType dtype = lo.dtype(x);
  const bool nearest = operands.how.interpolation == Interpolation::kNearest;
  if (!nearest && dtype == DType::kBool) lo.malformed("bool can be resized in mode 'nearest' only");
  const Val y = resized_by_operands(lo, operands, nearest ? x : lo.b.cast(x, DType::kFloat32));
  lo.output(0, nearest ? y : as_dtype(lo, y, dtype, false));
}

}  // namespace

void lower_resize(Lowering& lo) {
  Val x = lo.input(0);
  if (const auto operands = read_resize_operands(lo, x)) return finish_at_run_time(lo, *operands, x);
  finish_resize(lo, read_resize(lo, x), x);
}

void lower_upsample(Lowering& lo) {
  Val x = lo.input(0);
  if (const auto operands = read_upsample_operands(lo, x)) return finish_at_run_time(lo, *operands, x);
  finish_resize(lo, read_upsample(lo, x), x);
}

}  // namespace lowtide::layout
