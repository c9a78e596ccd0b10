// SPDX-License-Identifier: Apache-2.0
#include "layout/lower/elementwise.h"

#include <fmt/format.h>

#include "layout/lower/attributes.h"

namespace lowtide::layout {

std::pair<Val, Val> broadcast_operands(Lowering& lo) {
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
    lo.malformed(
        fmt::format("operand B of rank {} does not fit operand A of rank {} at axis {}", lo.rank(b), lo.rank(a), axis));
  Shape shape = lo.shape(b);
  shape.insert(shape.end(), static_cast<size_t>(trailing), 1);
  return {a, lo.b.reshape(b, shape)};
}

Val absolute_value(Builder& b, Val x) {
  const DType dtype = b.dtype(x);
  if (dtype == DType::kInt64) return b.maximum(x, b.neg(x));  // ABS has no kernel for i64
  if (stream::is_integer(dtype) && !stream::is_signed_int(dtype)) return x;
  return b.abs(x);
}

Val bitcast_to(Builder& b, Val x, DType to) {
  return b.dtype(x) == to ? x : b.op(Kind::kBitcast, {x}, core::IndexOptions{to});
}

Val cast_through_i64(Builder& b, Val x, DType to) {
  return to == DType::kUint64 ? bitcast_to(b, b.cast(x, DType::kInt64), to) : b.cast(x, to);
}

Val keeping_nan(Builder& b, Kind kind, Val x, Val y) {
  const bool swaps = stream::is_float(b.dtype(x)) && b.is_constant(y);
  return b.op(kind, {swaps ? y : x, swaps ? x : y});
}

Val bitwise_complement(Builder& b, Val x) {
  const DType dtype = b.dtype(x);
  Val word = dtype == DType::kUint64 ? bitcast_to(b, x, DType::kInt64) : x;
  if (stream::is_signed_int(b.dtype(word))) return bitcast_to(b, b.sub(b.scalar_like(-1, word), word), dtype);
  const double all_ones = static_cast<double>((uint64_t{1} << stream::bits(dtype)) - 1);
  return b.bitwise_xor(x, b.scalar_like(all_ones, x));
}

Val reversed_order(Builder& b, Val x) { return stream::is_integer(b.dtype(x)) ? bitwise_complement(b, x) : b.neg(x); }

}  // namespace lowtide::layout
