// SPDX-License-Identifier: Apache-2.0
#include "layout/lower/operands.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

namespace lowtide::layout {

void ignore_consumed_inputs(Lowering& lo) {
  if (lo.opset() < 6) lo.ignore_attr("consumed_inputs");
}

std::pair<Val, Val> operands(Lowering& lo) {
  Val a = lo.input(0), b = lo.input(1);
  if (lo.opset() >= 7) return {a, b};
  ignore_consumed_inputs(lo);
  const bool broadcast = lo.attr_i("broadcast", 0) != 0;
  const bool has_axis = lo.has_attr("axis");
  const int64_t given = lo.attr_i("axis", 0);
  if (!broadcast || !has_axis || lo.rank(b) == 0) return {a, b};
  const int axis = lo.axis(given, lo.rank(a));
  const int trailing = lo.rank(a) - axis - lo.rank(b);
  if (trailing < 0)
    lo.malformed(fmt::format("operand B of rank {} does not fit at axis {} of rank {}", lo.rank(b), axis, lo.rank(a)));
  Shape shape = lo.shape(b);
  shape.insert(shape.end(), static_cast<size_t>(trailing), 1);
  return {a, lo.b.reshape(b, shape)};
}

Val magnitude(Builder& b, Val x) {
  const DType dtype = b.dtype(x);
  if (dtype == DType::kInt64) return b.maximum(x, b.neg(x));  // ABS has no kernel for i64
  if (stream::is_integer(dtype) && !stream::is_signed_int(dtype)) return x;
  return b.abs(x);
}

Val same_bits(Builder& b, Val x, DType to) {
  return b.dtype(x) == to ? x : b.op(Kind::kBitcast, {x}, core::IndexOptions{to});
}

Val inverted_bits(Builder& b, Val x) {
  const DType dtype = b.dtype(x);
  Val word = dtype == DType::kUint64 ? same_bits(b, x, DType::kInt64) : x;
  if (stream::is_signed_int(b.dtype(word))) return same_bits(b, b.sub(b.scalar_like(-1, word), word), dtype);
  const double all_ones = static_cast<double>((uint64_t{1} << stream::bits(dtype)) - 1);
  return b.bitwise_xor(x, b.scalar_like(all_ones, x));
}

std::vector<int64_t> attr_numbers(Lowering& lo, const char* name, size_t count, int64_t otherwise, int64_t least) {
  std::vector<int64_t> values = lo.attr_ints(name).value_or(std::vector<int64_t>(count, otherwise));
  if (values.size() != count) lo.malformed(fmt::format("{} has {} numbers, not {}", name, values.size(), count));
  for (int64_t value : values)
    if (value < least || value > std::numeric_limits<int32_t>::max())
      lo.malformed(fmt::format("{} holds {}, which is out of range", name, value));
  return values;
}

DType attr_float_dtype(Lowering& lo, const char* name, DType otherwise) {
  const DType dtype = lo.attr_dtype(name, otherwise);
  if (!stream::is_float(dtype)) lo.malformed(fmt::format("{} is no floating-point type", name));
  return dtype;
}

std::vector<int> axes_from(int first, int rank) {
  std::vector<int> axes(static_cast<size_t>(std::max(0, rank - first)));
  std::iota(axes.begin(), axes.end(), first);
  return axes;
}

}  // namespace lowtide::layout
