// SPDX-License-Identifier: Apache-2.0
// OneHot. Difference: ONE_HOT takes no negative indices.
#include <fmt/format.h>

#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

// An element of a list as a scalar.
Val element(Lowering& lo, Val list, int64_t at) {
  const Dim one = 1;
  return lo.b.reshape(lo.b.slice(list, {&at, 1}, {&one, 1}), {});
}

// Floats as integers. An index that is not a whole number turns no entry on, as in ONNX Runtime and the reference
// implementation: it becomes `depth`, which is out of range.
Val whole_indices(Lowering& lo, Val indices, Val depth) {
  const Val whole = lo.b.cast(indices, DType::kInt64);
  const Val is_whole = lo.b.equal(lo.b.cast(whole, lo.dtype(indices)), indices);
  return lo.b.select(is_whole, whole, lo.b.cast(depth, DType::kInt64));
}

}  // namespace

void lower_one_hot(Lowering& lo) {
  Val indices = lo.input(0), depth = as_scalar(lo, lo.input(1)), values = lo.input(2);
  const int axis = lo.axis(lo.attr_i("axis", -1), lo.rank(indices) + 1);
  if (lo.rank(values) != 1 || lo.b.dim(values, 0) != 2)
    lo.misfit("input 2 ('values') must have shape [2]; it has shape " + stream::to_string(lo.shape(values)));
  if (auto known = lo.numbers(depth); known && !((*known)[0] >= 1 && (*known)[0] <= INT32_MAX))
    lo.malformed(fmt::format("input 1 ('depth') must be from 1 to 2^31 - 1; it is {}", (*known)[0]));
  if (stream::is_float(lo.dtype(indices)))
    indices = whole_indices(lo, indices, depth);
  else if (lo.dtype(indices) != DType::kInt32)
    indices = lo.b.cast(indices, DType::kInt64);
  if (lo.opset() >= 11) {
    // -depth .. -1 count from the end; other indices out of range stay out of range.
    Val below = lo.b.less(indices, lo.b.scalar_like(0, indices));
    indices = lo.b.select(below, lo.b.add(indices, lo.b.cast(depth, lo.dtype(indices))), indices);
  }
  Val off = element(lo, values, 0), on = element(lo, values, 1);
  lo.output(0, lo.b.one_hot(indices, lo.b.cast(depth, DType::kInt32), on, off, axis));
}

}  // namespace lowtide::layout
