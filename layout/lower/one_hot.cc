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

// Whether these are places along an axis: none is negative, and none has more than 32 bits.
bool are_places(const core::Graph& graph, core::ValueId indices) {
  for (core::OpId producer; (producer = graph.at(indices).producer) >= 0;) {
    const core::Op& op = graph.op(producer);
    if (op.kind == Kind::kArgMax || op.kind == Kind::kArgMin) return true;
    if (op.kind == Kind::kTopkV2) return op.outputs[1] == indices;
    const bool is_from_integers = op.kind == Kind::kCast && stream::is_integer(graph.at(op.inputs[0]).dtype) &&
                                  stream::bits(graph.at(indices).dtype) >= 32;
    if (!is_from_integers && op.kind != Kind::kReshape && op.kind != Kind::kTranspose) return false;
    indices = op.inputs[0];
  }
  return false;
}

// The kernel takes the lower 32 bits of an index, which may be those of one in range.
Val in_32_bits(Lowering& lo, Val indices, Val depth) {
  if (lo.dtype(indices) != DType::kInt64) return indices;
  const Val from_below = lo.b.maximum(indices, lo.b.scalar_like(-1, indices));
  return lo.b.cast(lo.b.minimum(from_below, lo.b.cast(depth, DType::kInt64)), DType::kInt32);
}

}  // namespace

void lower_one_hot(Lowering& lo) {
  Val indices = lo.input(0), depth = as_scalar(lo, lo.input(1)), values = lo.input(2);
  const int axis = lo.axis(lo.attr_i("axis", -1), lo.rank(indices) + 1);
  if (lo.rank(values) != 1 || lo.b.dim(values, 0) != 2)
    lo.misfit("input 2 ('values') must have shape [2]; it has shape " + stream::to_string(lo.shape(values)));
  if (auto known = lo.numbers(depth); known && !((*known)[0] >= 1 && (*known)[0] <= INT32_MAX))
    lo.malformed(fmt::format("input 1 ('depth') must be from 1 to 2^31 - 1; it is {}", (*known)[0]));
  const DType dtype = lo.dtype(indices);
  const bool is_short = stream::bits(dtype) < 32 || dtype == DType::kInt32;
  if (stream::is_float(dtype))
    indices = whole_indices(lo, indices, depth);
  else
    indices = lo.b.cast(indices, is_short ? DType::kInt32 : DType::kInt64);
  if (!are_places(lo.b.graph, indices.id)) {
    if (lo.opset() >= 11) {
      // -depth .. -1 count from the end; other indices out of range stay out of range.
      Val below = lo.b.less(indices, lo.b.scalar_like(0, indices));
      indices = lo.b.select(below, lo.b.add(indices, lo.b.cast(depth, lo.dtype(indices))), indices);
    }
    indices = in_32_bits(lo, indices, depth);
  }
  Val off = element(lo, values, 0), on = element(lo, values, 1);
  lo.output(0, lo.b.one_hot(indices, lo.b.cast(depth, DType::kInt32), on, off, axis));
}

}  // namespace lowtide::layout
