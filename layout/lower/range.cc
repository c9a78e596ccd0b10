// SPDX-License-Identifier: Apache-2.0
// Range, also that of com.microsoft, whose delta may be missing.
// Difference: RANGE refuses an empty range; ONNX gives a tensor without elements.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

// As ONNX Runtime does it: elements are added up in their own type, f32 or f64; the count is computed in double from
// the start.
double float_count(double start, double limit, double delta) {
  return std::max(0.0, std::ceil((limit - start) / delta));
}

template <typename T>
Val float_range(Lowering& lo, DType dtype, double start, double delta, double count) {
  std::vector<T> elements;
  T value = static_cast<T>(start);
  for (size_t i = 0; i < static_cast<size_t>(count); ++i, value += static_cast<T>(delta)) elements.push_back(value);
  const auto size = static_cast<Dim>(elements.size());
  return lo.b.constant(stream::recipe::values<T>(elements, dtype, {size}));
}

// Too long to be held in memory: RANGE adds up in f32 too, but it also counts in f32. Where that gives another number,
// its limit is moved to the middle between two elements.
Val long_f32_range(Lowering& lo, double start, double limit, double delta, double count) {
  const float from = static_cast<float>(start), step = static_cast<float>(delta);
  for (const double end : {limit, start + (count - 0.5) * delta}) {
    const float to = static_cast<float>(end);
    if (static_cast<double>(std::ceil((to - from) / step)) == count)
      return lo.b.range(lo.b.scalar(start, DType::kFloat32), lo.b.scalar(to, DType::kFloat32),
                        lo.b.scalar(delta, DType::kFloat32));
  }
  lo.unsupported(fmt::format(
      "a float range of {} elements from {} by {} is not supported: the kernel counts them in 32 bits, and differently",
      count, start, delta));
}

struct Ends {
  Val start, limit, delta;  // scalars
};

// Differences of 64-bit numbers need more bits.
Val integer_range(Lowering& lo, const Ends& ends, int64_t start, int64_t limit, int64_t delta) {
  const __int128 span = static_cast<__int128>(limit) - start;
  const bool is_empty = span == 0 || (span > 0) != (delta > 0);
  const __int128 count = is_empty ? 0 : span / delta + (span % delta == 0 ? 0 : 1);
  if (count > INT32_MAX) lo.malformed("the range has more than 2^31 - 1 elements");
  const double rounded =
      std::max(0.0, std::ceil((static_cast<double>(limit) - static_cast<double>(start)) / static_cast<double>(delta)));
  if (static_cast<double>(count) != rounded)
    lo.unsupported(
        fmt::format("a range from {} to {} is not supported: it has {} elements in ONNX, and {} in ONNX Runtime, "
                    "which computes their number with 53 bits",
                    start, limit, static_cast<int64_t>(count), rounded),
        "use numbers below 2^53");
  // The kernel subtracts in 64 bits. It refuses ranges that are empty, and gives long ones without storing them.
  constexpr int64_t kHalf = int64_t{1} << 62;
  const bool is_far = start <= -kHalf || start >= kHalf || limit <= -kHalf || limit >= kHalf;
  if (count > static_cast<__int128>(stream::kSmallElements) && !is_far)
    return lo.b.range(ends.start, ends.limit, ends.delta);
  return lo.b.constant(stream::recipe::iota(start, delta, lo.dtype(ends.start), static_cast<Dim>(count)));
}

bool is_whole_in_f32(double number) { return number == std::trunc(number) && std::abs(number) < 0x1p24; }

// The integer that a float known at run time only is cast from; absent where it is not.
Val integer_source(Lowering& lo, Val x) {
  const core::Graph& graph = lo.b.graph;
  for (core::OpId id = graph.at(x.id).producer; id >= 0;) {
    const core::Op& op = graph.ops[static_cast<size_t>(id)];
    const core::Value& from = graph.at(op.inputs[0]);
    if (op.kind == Kind::kCast) return stream::is_integer(from.dtype) ? Val{op.inputs[0]} : Val{};
    if (op.kind != Kind::kReshape && op.kind != Kind::kSqueeze) return {};
    id = from.producer;
  }
  return {};
}

bool is_made_of_integers(Lowering& lo, Val x) {
  if (const auto known = lo.numbers(x)) return is_whole_in_f32((*known)[0]);
  return static_cast<bool>(integer_source(lo, x));
}

// Whether RANGE, which computes limit - start and the quotient by delta in f32, counts as ONNX Runtime does in f64:
// both have all their digits. The quotient has where delta is a power of two; the difference where start is 0, where
// start is a whole number that leads away from 0, and where both are whole.
bool counts_in_f32(Lowering& lo, Val start, Val limit, Val delta) {
  const auto step = lo.numbers(delta), from = lo.numbers(start);
  int exponent = 0;
  if (!step || std::abs(std::frexp((*step)[0], &exponent)) != 0.5) return false;
  if (from && is_whole_in_f32((*from)[0]) && (*from)[0] * (*step)[0] >= 0) return true;
  return is_made_of_integers(lo, start) && is_made_of_integers(lo, limit);
}

// a - b in f32, and what it lacks to the exact difference.
std::pair<Val, Val> exact_difference(Builder& b, Val a, Val minus) {
  const Val rounded = b.sub(a, minus);
  const Val taken = b.sub(rounded, a);  // -minus, as far as `rounded` has it
  const Val lost_of_a = b.sub(a, b.sub(rounded, taken)), lost = b.add(minus, taken);
  return {rounded, b.sub(lost_of_a, lost)};
}

// ceil((limit - start) / delta) as if computed in f64, f32; limit is not before start. FLOOR_MOD leaves exactly what is
// over when delta is taken as often as possible; what the difference in f32 lacks may take it to 0 or beyond delta.
Val exact_count(Lowering& lo, Val start, Val limit, Val delta) {
  Builder& b = lo.b;
  const Val zero = b.scalar(0, DType::kFloat32), sign = b.sign(delta), step = b.abs(delta);
  const auto one_if_positive = [&](Val x) { return b.cast(b.greater(x, zero), DType::kFloat32); };
  const auto times = [&](Val span, Val over) { return b.round(b.div(b.sub(span, over), step)); };
  if (const auto from = lo.numbers(start); from && (*from)[0] == 0) {
    const Val span = b.mul(limit, sign);
    const Val over = b.floor_mod(span, step);
    return b.add(times(span, over), one_if_positive(over));
  }
  auto [span, lacks] = exact_difference(b, limit, start);
  span = b.mul(span, sign);
  lacks = b.mul(lacks, sign);
  const Val over = b.floor_mod(span, step);
  const Val whole = b.add(times(span, over), one_if_positive(b.add(over, lacks)));
  return b.add(whole, one_if_positive(b.add(b.sub(over, step), lacks)));
}

// Elements are added up in f32, as RANGE and ONNX Runtime do.
Val counted_range(Lowering& lo, Val start, Val limit, Val delta) {
  Builder& b = lo.b;
  const Dim one = 1;
  const int64_t first = 0;
  const Val count = b.reshape(b.cast(exact_count(lo, start, limit, delta), DType::kInt32), {&one, 1});
  const Val terms = b.concat({b.reshape(start, {&one, 1}), b.fill(count, delta)}, 0);
  return b.op(Kind::kSlice, {b.cumsum(terms, 0, false, false), b.i32({first}), count});
}

// Numbers known at run time only. A range from 0 up to a dimension is never negative: any other range may be empty.
Val range_at_run_time(Lowering& lo, Val start, Val limit, Val delta) {
  const auto first = lo.ints(start);
  const auto step = lo.numbers(delta);
  const bool counts_up = first && (*first)[0] == 0 && never_negative(lo, limit) && step && (*step)[0] > 0;
  if (!counts_up) {
    Val up = lo.b.maximum(limit, start), down = lo.b.minimum(limit, start);
    if (step)
      limit = (*step)[0] > 0 ? up : down;
    else
      limit = lo.b.select(lo.b.greater(delta, lo.b.scalar_like(0, delta)), up, down);
  }
  const bool as_kernel = lo.dtype(start) != DType::kFloat32 || counts_in_f32(lo, start, limit, delta);
  return as_kernel ? lo.b.range(start, limit, delta) : counted_range(lo, start, limit, delta);
}

// An f64 number as i64, where it is certainly whole: a constant, or made of an integer.
Val as_whole(Lowering& lo, Val x) {
  if (const auto known = lo.numbers(x)) {
    const double number = (*known)[0];
    if (number != std::trunc(number) || std::abs(number) >= 0x1p53) return {};
    return lo.b.scalar(number, DType::kInt64);
  }
  const Val integer = integer_source(lo, x);
  return integer && lo.dtype(integer) != DType::kUint64 ? as_scalar(lo, lo.b.cast(integer, DType::kInt64)) : Val{};
}

// No kernel counts in f64, and in f32 the number of elements would be another. Integers have all digits; absent where
// the numbers may not be whole.
Val whole_f64_range(Lowering& lo, const Ends& ends) {
  const Val first = as_whole(lo, ends.start), last = as_whole(lo, ends.limit), by = as_whole(lo, ends.delta);
  if (!first || !last || !by) return {};
  return lo.b.cast(range_at_run_time(lo, first, last, by), DType::kFloat64);
}

Val f64_range_at_run_time(Lowering& lo, const Ends& ends) {
  if (const Val range = whole_f64_range(lo, ends)) return range;
  lo.unsupported(
      "a range of f64 numbers that are known at run time only is not supported, unless they are made of "
      "integers: no kernel counts its elements with 64 bits",
      "make start, limit and delta constants, or float32");
}

Val constant_float_range(Lowering& lo, const Ends& ends, double start, double limit, double delta) {
  const DType dtype = lo.dtype(ends.start);
  const double count = float_count(start, limit, delta);
  if (!(count <= static_cast<double>(INT32_MAX)))
    lo.unsupported("a float range of more than 2^31 - 1 elements is not supported");
  if (count <= static_cast<double>(stream::kSmallElements))
    return dtype == DType::kFloat64 ? float_range<double>(lo, dtype, start, delta, count)
                                    : float_range<float>(lo, dtype, start, delta, count);
  if (dtype == DType::kFloat32) return long_f32_range(lo, start, limit, delta, count);
  if (const Val range = whole_f64_range(lo, ends)) return range;
  lo.unsupported(
      fmt::format("a range of more than {} f64 numbers is not supported, unless start, limit and delta are "
                  "whole: no kernel adds them up with 64 bits",
                  stream::kSmallElements));
}

}  // namespace

void lower_range(Lowering& lo) {
  Val start = as_scalar(lo, lo.input(0)), limit = as_scalar(lo, lo.input(1));
  Val delta = lo.has_input(2) ? as_scalar(lo, lo.input(2)) : lo.b.scalar_like(1, start);
  const DType dtype = lo.dtype(start);
  if (lo.dtype(limit) != dtype || lo.dtype(delta) != dtype)
    lo.malformed("start, limit and delta must have the same type");
  auto from = lo.numbers(start), to = lo.numbers(limit), step = lo.numbers(delta);
  if (step && (*step)[0] == 0) lo.malformed("input 2 ('delta') must not be 0");
  for (const auto& one : {from, to, step})
    if (one && std::isnan((*one)[0])) lo.malformed("start, limit and delta must not be NaN");
  if ((dtype == DType::kFloat32 || dtype == DType::kFloat64) && from && to && step) {
    lo.output(0, constant_float_range(lo, {start, limit, delta}, (*from)[0], (*to)[0], (*step)[0]));
    return;
  }
  const auto first = lo.ints(start), last = lo.ints(limit), by = lo.ints(delta);
  if (first && last && by)
    lo.output(0, integer_range(lo, {start, limit, delta}, (*first)[0], (*last)[0], (*by)[0]));
  else if (dtype == DType::kFloat64)
    lo.output(0, f64_range_at_run_time(lo, {start, limit, delta}));
  else
    lo.output(0, range_at_run_time(lo, start, limit, delta));
}

}  // namespace lowtide::layout
