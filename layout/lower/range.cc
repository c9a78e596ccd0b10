// SPDX-License-Identifier: Apache-2.0
// Range. Difference: RANGE refuses an empty range; ONNX gives a tensor without elements.
#include <cmath>
#include <string>

#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

// As ONNX Runtime does it: elements are added up in float, the count is computed in double.
Val float_range(Lowering& lo, float start, float limit, float delta) {
  if (delta == 0) lo.malformed("input 2 ('delta') must not be 0");
  if (std::isnan(start) || std::isnan(limit) || std::isnan(delta))
    lo.malformed("start, limit and delta must not be NaN");
  const double count = std::max(0.0, std::ceil((1.0 * (limit - start)) / delta));
  if (!(count <= static_cast<double>(stream::kSmallElements)))
    lo.unsupported("a float range of more than " + std::to_string(stream::kSmallElements) +
                   " elements is not supported");
  std::vector<float> elements;
  float value = start;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i, value += delta) elements.push_back(value);
  return lo.b.constant(stream::recipe::floats(elements, {static_cast<Dim>(elements.size())}));
}

}  // namespace

void lower_range(Lowering& lo) {
  Val start = as_scalar(lo, lo.input(0)), limit = as_scalar(lo, lo.input(1)), delta = as_scalar(lo, lo.input(2));
  const DType dtype = lo.dtype(start);
  if (lo.dtype(limit) != dtype || lo.dtype(delta) != dtype)
    lo.malformed("start, limit and delta must have the same type");
  auto from = lo.numbers(start), to = lo.numbers(limit), step = lo.numbers(delta);
  if (dtype == DType::kFloat32 && from && to && step) {
    lo.output(0, float_range(lo, static_cast<float>((*from)[0]), static_cast<float>((*to)[0]),
                             static_cast<float>((*step)[0])));
    return;
  }
  if (stream::is_integer(dtype) && lo.ints(delta) && (*lo.ints(delta))[0] == 0)
    lo.malformed("input 2 ('delta') must not be 0");
  // Known numbers are folded, and a range from 0 up to a dimension is never negative: any other range may be empty.
  const auto first = lo.ints(start);
  const bool counts_up = first && (*first)[0] == 0 && lo.dims(limit) && step && (*step)[0] > 0;
  const bool known = first && lo.ints(limit) && lo.ints(delta);
  if (known) {
    const __int128 span = static_cast<__int128>((*lo.ints(limit))[0]) - (*first)[0];
    if (span / (*lo.ints(delta))[0] > INT32_MAX) lo.malformed("the range has more than 2^31 - 1 elements");
  }
  if (!known && !counts_up) {
    Val up = lo.b.maximum(limit, start), down = lo.b.minimum(limit, start);
    if (step)
      limit = (*step)[0] > 0 ? up : down;
    else
      limit = lo.b.select(lo.b.greater(delta, lo.b.scalar_like(0, delta)), up, down);
  }
  lo.output(0, lo.b.range(start, limit, delta));
}

}  // namespace lowtide::layout
