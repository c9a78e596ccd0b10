// SPDX-License-Identifier: Apache-2.0
// ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceProd, ReduceL1, ReduceL2, ReduceSumSquare, ReduceLogSum,
// ReduceLogSumExp. Axes are an attribute before opset 18 (ReduceSum: 13), then an input; no axes means all, or, with
// noop_with_empty_axes, no reduction. Reductions without a TFLite kernel are composed of SUM and elementwise ops.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "layout/lower/attributes.h"
#include "layout/lower/elementwise.h"
#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The inputs and attributes of a node.
struct Reduced {
  Val x;
  std::vector<int> axes;
  Val run_time_axes;
  bool keep_dims = true;
  bool noop = false;  // reduces nothing
};

// Axes known at run time only of which each counts once for the rank that is left.
Val distinct(Lowering& lo, const Reduced& r) {
  const Shape& listed = lo.shape(r.run_time_axes);
  const int rank = lo.rank(r.x);
  if (r.keep_dims || listed.size() != 1 || core::is_symbol(listed[0]) || listed[0] < 2 || listed[0] > rank)
    return r.run_time_axes;
  const Val is_listed = lo.b.greater(times_listed(lo, r.run_time_axes, rank), lo.b.i32_scalar(0));
  return lo.b.cast(lo.b.reshape(places_of(lo, is_listed, listed[0], listed[0]), {listed[0]}), DType::kInt32);
}

Reduced read(Lowering& lo, int64_t axes_input_since) {
  Reduced r{.x = lo.input(0)};
  r.keep_dims = lo.attr_i("keepdims", 1) == 1;  // any other number is 0 to ONNX Runtime, here and below
  std::optional<std::vector<int64_t>> axes;
  if (lo.opset() >= axes_input_since) {
    r.noop = lo.attr_i("noop_with_empty_axes", 0) == 1;
    if (lo.has_input(1)) {
      axes = lo.ints(lo.input(1));
      if (!axes && lo.shape(lo.input(1)) == Shape{0}) axes.emplace();
      if (!axes) r.run_time_axes = lo.b.cast(lo.input(1), DType::kInt32);
    }
  } else {
    axes = lo.attr_ints("axes");
  }
  if (r.run_time_axes) {
    r.noop = false;
    r.run_time_axes = distinct(lo, r);
    return r;
  }
  r.noop = r.noop && (!axes || axes->empty());
  if (r.noop) return r;
  r.axes = axes && !axes->empty() ? lo.axis_set(*axes, lo.rank(r.x)) : axes_from(0, lo.rank(r.x));
  return r;
}

Val reduce(Builder& b, Kind kind, const Reduced& r, Val x, bool keep_dims) {
  if (r.noop) return x;
  if (r.run_time_axes) return b.op(kind, {x, r.run_time_axes}, core::ReduceOptions{keep_dims});
  return b.reduce(kind, x, r.axes, keep_dims);
}
Val reduce(Builder& b, Kind kind, const Reduced& r, Val x) { return reduce(b, kind, r, x, r.keep_dims); }

// The shape of the result.
Shape reduced_shape(Builder& b, const Reduced& r) {
  Shape shape;
  for (int i = 0; i < b.rank(r.x); ++i) {
    const bool reduced = std::count(r.axes.begin(), r.axes.end(), i) > 0;
    if (!reduced || r.keep_dims) shape.push_back(reduced ? 1 : b.dim(r.x, i));
  }
  return shape;
}

// Sets the output of a reduction over no elements, for which the kernels' results differ from ONNX's. False when there
// may be elements.
bool output_of_empty(Lowering& lo, const Reduced& r, Val value) {
  if (r.noop) return false;
  const Shape& shape = lo.shape(r.x);
  if (r.run_time_axes && std::count(shape.begin(), shape.end(), 0) > 0) {
    // The kernels are right in the shape of the result, and wrong or silent in its elements.
    lo.output(0, lo.b.fill(lo.b.shape_of(reduce(lo.b, Kind::kSum, r, lo.b.cast(r.x, DType::kInt32))), value));
    return true;
  }
  if (r.run_time_axes) return false;
  const bool empty = std::any_of(r.axes.begin(), r.axes.end(), [&](int axis) { return lo.b.dim(r.x, axis) == 0; });
  if (empty) lo.output(0, lo.b.broadcast_to(value, reduced_shape(lo.b, r)));
  return empty;
}
bool output_of_empty(Lowering& lo, const Reduced& r, double value) {
  if (!stream::is_float(lo.dtype(r.x)) && !std::isfinite(value)) return false;  // integers have no such value
  return output_of_empty(lo, r, lo.b.scalar_like(value, r.x));
}

// The smallest (sign -1) or largest (1) element of a dtype: the maximum or minimum of no elements.
Val extreme(Lowering& lo, DType dtype, int sign) {
  if (stream::is_float(dtype)) return lo.b.scalar(sign * kInfinity, dtype);
  if (dtype == DType::kBool) return lo.b.cast(lo.b.i32_scalar(sign > 0), DType::kBool);
  if (!stream::is_integer(dtype))
    lo.unsupported("a maximum or minimum of " + std::string(stream::dtype_name(dtype)) + " is not supported");
  const int width = stream::bits(dtype);
  if (dtype == DType::kUint64 && sign > 0) return lo.b.cast(lo.b.scalar(-1, DType::kInt64), dtype);  // all bits
  int64_t value = std::numeric_limits<int64_t>::max() >> (64 - width);
  if (!stream::is_signed_int(dtype))
    value = sign < 0 ? 0 : value * 2 + 1;
  else if (sign < 0)
    value = -value - 1;
  return {lo.b.graph.add_ints({&value, 1}, dtype, {})};
}

constexpr int64_t kSumAxesInput = 13, kAxesInput = 18;  // from these opsets on axes are an input

void extreme_of(Lowering& lo, Kind kind, Kind kind_for_bool, int sign_of_empty) {
  Reduced r = read(lo, kAxesInput);
  if (output_of_empty(lo, r, extreme(lo, lo.dtype(r.x), sign_of_empty))) return;
  lo.output(0, reduce(lo.b, lo.dtype(r.x) == DType::kBool ? kind_for_bool : kind, r, r.x));
}

}  // namespace

void lower_reduce_max(Lowering& lo) { extreme_of(lo, Kind::kReduceMax, Kind::kReduceAny, -1); }
void lower_reduce_min(Lowering& lo) { extreme_of(lo, Kind::kReduceMin, Kind::kReduceAll, 1); }

void lower_reduce_sum(Lowering& lo) {
  Reduced r = read(lo, kSumAxesInput);
  if (output_of_empty(lo, r, 0)) return;
  lo.output(0, reduce(lo.b, Kind::kSum, r, r.x));
}

// For integers ONNX and TFLite truncate the quotient.
void lower_reduce_mean(Lowering& lo) {
  Reduced r = read(lo, kAxesInput);
  if (output_of_empty(lo, r, std::numeric_limits<double>::quiet_NaN())) return;
  lo.output(0, reduce(lo.b, Kind::kMean, r, r.x));
}

void lower_reduce_prod(Lowering& lo) {
  Reduced r = read(lo, kAxesInput);
  if (output_of_empty(lo, r, 1)) return;
  lo.output(0, reduce(lo.b, Kind::kReduceProd, r, r.x));
}

void lower_reduce_l1(Lowering& lo) {
  Reduced r = read(lo, kAxesInput);
  if (output_of_empty(lo, r, 0)) return;
  lo.output(0, reduce(lo.b, Kind::kSum, r, absolute_value(lo.b, r.x)));
}

void lower_reduce_sum_square(Lowering& lo) {
  Reduced r = read(lo, kAxesInput);
  if (output_of_empty(lo, r, 0)) return;
  lo.output(0, reduce(lo.b, Kind::kSum, r, lo.b.mul(r.x, r.x)));
}

namespace {

// ---- roots and logarithms of integers: f32 does not hold all of them, and the whole part of a number that is nearly
// whole would be off by one. Sums are taken in 64 bits, as ONNX Runtime's do not wrap in 32 either. ----

// The whole part of the square root of an i64 that is not negative.
//
// With the whole number q near the root, q + (s - q * q) / 2q is above the root by (q - root)^2 / 2q. The root in f32
// is within 300 of the true one, so that is less than 0.5, and its whole part is off by at most one. Products that wrap
// do no harm: differences of them are small.
Val whole_root(Builder& b, Val s) {
  const auto in_floats = [&](Val v) { return b.cast(v, DType::kFloat32); };
  const Val about = b.cast(b.sqrt(in_floats(s)), DType::kInt64);
  const Val left = in_floats(b.sub(s, b.mul(about, about)));
  const Val twice = in_floats(b.mul(b.maximum(about, b.scalar_like(1, about)), 2));
  const Val near = b.add(about, b.cast(b.floor(b.div(left, twice)), DType::kInt64));
  const Val over = b.sub(s, b.mul(near, near));
  const Val too_large = b.less(over, b.scalar_like(0, over));
  const Val too_small = b.greater(over, b.mul(near, 2));
  return b.add(b.sub(near, b.cast(too_large, DType::kInt64)), b.cast(too_small, DType::kInt64));
}

// e^1, e^2, ... rounded up: up to an integer s there are as many of them as the whole part of log(s) says. The last one
// is the largest that i64 holds.
// clang-format off
constexpr std::array<int64_t, 43> kPowersOfE = {
    3, 8, 21, 55, 149, 404, 1097, 2981, 8104, 22027, 59875, 162755, 442414, 1202605, 3269018, 8886111, 24154953,
    65659970, 178482301, 485165196, 1318815735, 3584912847, 9744803447, 26489122130, 72004899338, 195729609429,
    532048240602, 1446257064292, 3931334297145, 10686474581525, 29048849665248, 78962960182681, 214643579785917,
    583461742527455, 1586013452313431, 4311231547115196, 11719142372802612, 31855931757113757, 86593400423993747,
    235385266837019986, 639843493530054950, 1739274941520501048, 4727839468229346562};
// clang-format on

// The whole part of the logarithm of an i64 above 0; 0 of others.
Val whole_log(Builder& b, Val s) {
  const Val powers{b.graph.add_ints(kPowersOfE, DType::kInt64, {static_cast<Dim>(kPowersOfE.size())})};
  const int last[] = {b.rank(s)};
  const Val reached = b.greater_equal(b.unsqueeze(s, last), powers);
  return b.cast(b.sum(b.cast(reached, DType::kInt32), last, false), DType::kInt64);
}

}  // namespace

void lower_reduce_l2(Lowering& lo) {
  Builder& b = lo.b;
  Reduced r = read(lo, kAxesInput);
  if (output_of_empty(lo, r, 0)) return;
  const DType dtype = lo.dtype(r.x);
  const bool is_float = stream::is_float(dtype);
  const Val x = is_float ? r.x : b.cast(r.x, DType::kInt64);
  const Val squares = reduce(b, Kind::kSum, r, b.mul(x, x));
  lo.output(0, is_float ? b.sqrt(squares) : b.cast(whole_root(b, squares), dtype));
}

// ONNX Runtime gives the lowest integer where the sum is not positive.
void lower_reduce_log_sum(Lowering& lo) {
  Builder& b = lo.b;
  Reduced r = read(lo, kAxesInput);
  if (output_of_empty(lo, r, -kInfinity)) return;
  const DType dtype = lo.dtype(r.x);
  if (stream::is_float(dtype)) return lo.output(0, b.log(reduce(b, Kind::kSum, r, r.x)));
  const Val sum = reduce(b, Kind::kSum, r, b.cast(r.x, DType::kInt64));
  const Val is_positive = b.greater(sum, b.scalar_like(0, sum));
  lo.output(0, b.select(is_positive, b.cast(whole_log(b, sum), dtype), extreme(lo, dtype, -1)));
}

namespace {

// log(sum(exp(x))) = m + log(sum(exp(x - m))) with the largest element m, kept finite: inf - inf would be NaN.
Val log_sum_exp_of_floats(Builder& b, const Reduced& r) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  Val largest = reduce(b, Kind::kReduceMax, r, r.x, true);
  largest = b.minimum(b.maximum(largest, b.scalar_like(-kLargest, r.x)), b.scalar_like(kLargest, r.x));
  Val sum = reduce(b, Kind::kSum, r, b.exp(b.sub(r.x, largest)), true);
  return b.add(b.log(sum), largest);
}

// ONNX Runtime truncates exponentials to integers too: log(sum(exp(x))) = m + log(n) where the largest element m is
// there n times, truncated in the end.
Val log_sum_exp_of_integers(Builder& b, const Reduced& r) {
  const DType dtype = b.dtype(r.x);
  const Val largest = reduce(b, Kind::kReduceMax, r, r.x, true);
  const Val count = reduce(b, Kind::kSum, r, b.cast(b.equal(r.x, largest), DType::kInt32), true);
  const Val below = b.add(largest, b.cast(whole_log(b, b.cast(count, DType::kInt64)), dtype));
  if (!stream::is_signed_int(dtype)) return below;
  // The logarithm of 2, 3, .. is no whole number: of a negative sum the whole part is the next one.
  const Val rounds_up = b.logical_and(b.less(below, b.scalar_like(0, below)), b.greater(count, b.i32_scalar(1)));
  return b.add(below, b.cast(rounds_up, dtype));
}

}  // namespace

void lower_reduce_log_sum_exp(Lowering& lo) {
  Builder& b = lo.b;
  Reduced r = read(lo, kAxesInput);
  if (output_of_empty(lo, r, -kInfinity)) return;
  if (r.noop) return lo.output(0, r.x);
  Val made = stream::is_float(lo.dtype(r.x)) ? log_sum_exp_of_floats(b, r) : log_sum_exp_of_integers(b, r);
  if (!r.keep_dims && r.run_time_axes)
    made = b.op(Kind::kReshape, {made, b.shape_of(reduce(b, Kind::kSum, r, r.x, false))});
  else if (!r.keep_dims)
    made = b.reshape(made, reduced_shape(b, r));
  lo.output(0, made);
}

}  // namespace lowtide::layout
