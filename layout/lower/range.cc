// SPDX-License-Identifier: Apache-2.0
// Range. Difference: RANGE refuses an empty range; ONNX gives a tensor without elements.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

// As ONNX Runtime does it: elements are added up in float, the count is computed in double from the start.
Val float_range(Lowering& lo, float start, float limit, float delta) {
  const double count = std::max(0.0, std::ceil((static_cast<double>(limit) - start) / delta));
  if (!(count <= static_cast<double>(stream::kSmallElements)))
    lo.unsupported("a float range of more than " + std::to_string(stream::kSmallElements) +
                   " elements is not supported");
  std::vector<float> elements;
  float value = start;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i, value += delta) elements.push_back(value);
  return lo.b.constant(stream::recipe::floats(elements, {static_cast<Dim>(elements.size())}));
}

// Differences of 64-bit numbers need more bits.
Val integer_range(Lowering& lo, DType dtype, int64_t start, int64_t limit, int64_t delta) {
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
    return lo.b.range(as_scalar(lo, lo.input(0)), as_scalar(lo, lo.input(1)), as_scalar(lo, lo.input(2)));
  return lo.b.constant(stream::recipe::iota(start, delta, dtype, static_cast<Dim>(count)));
}

}  // namespace

void lower_range(Lowering& lo) {
  Val start = as_scalar(lo, lo.input(0)), limit = as_scalar(lo, lo.input(1)), delta = as_scalar(lo, lo.input(2));
  const DType dtype = lo.dtype(start);
  if (lo.dtype(limit) != dtype || lo.dtype(delta) != dtype)
    lo.malformed("start, limit and delta must have the same type");
  auto from = lo.numbers(start), to = lo.numbers(limit), step = lo.numbers(delta);
  if (step && (*step)[0] == 0) lo.malformed("input 2 ('delta') must not be 0");
  for (const auto& one : {from, to, step})
    if (one && std::isnan((*one)[0])) lo.malformed("start, limit and delta must not be NaN");
  if (dtype == DType::kFloat32 && from && to && step) {
    lo.output(0, float_range(lo, static_cast<float>((*from)[0]), static_cast<float>((*to)[0]),
                             static_cast<float>((*step)[0])));
    return;
  }
  const auto first = lo.ints(start), last = lo.ints(limit), by = lo.ints(delta);
  if (first && last && by) {
    lo.output(0, integer_range(lo, dtype, (*first)[0], (*last)[0], (*by)[0]));
    return;
  }
  // A range from 0 up to a dimension is never negative: any other range may be empty.
  const bool counts_up = first && (*first)[0] == 0 && never_negative(lo, limit) && step && (*step)[0] > 0;
  if (!counts_up) {
    Val up = lo.b.maximum(limit, start), down = lo.b.minimum(limit, start);
    if (step)
      limit = (*step)[0] > 0 ? up : down;
    else
      limit = lo.b.select(lo.b.greater(delta, lo.b.scalar_like(0, delta)), up, down);
  }
  lo.output(0, lo.b.range(start, limit, delta));
}

}  // namespace lowtide::layout
