// SPDX-License-Identifier: Apache-2.0
// Cast, CastLike. In both formats a cast from float to integer truncates, and every number but 0 becomes true; only to
// 4 bits does ONNX round, ties to even. TFLite has no casts of strings, complex numbers, or u64. 4-bit integers have
// casts from and to f32 only, and these saturate where ONNX keeps the low bits: such casts go through i32. Floats of 8
// and 4 bits are cast from and to f32 (small_floats.h).
#include <fmt/format.h>

#include "layout/lower/elementwise.h"
#include "layout/lower/graph_inputs.h"
#include "layout/lower/lowering.h"
#include "layout/lower/quantize_linear.h"
#include "layout/lower/small_floats.h"
#include "layout/lower/unsigned.h"
#include "stream/recipe/small_floats.h"

namespace lowtide::layout {

namespace {

bool has_kernel(DType dtype) {
  return stream::is_float(dtype) || dtype == DType::kBool || (stream::is_integer(dtype) && stream::bits(dtype) >= 8);
}

bool has_4_bits(DType dtype) { return dtype == DType::kInt4 || dtype == DType::kUint4; }

void refuse(Lowering& lo, DType dtype) {
  if (has_kernel(dtype) || has_4_bits(dtype) || stream::is_small_float(dtype)) return;
  lo.unsupported(fmt::format("no TFLite kernel casts from or to {}", dtype_name(dtype)),
                 "cast outside the model, or make the input an initializer");
}

// CAST does not take u64: its bits are read as i64, and 2^64, which no f16 holds, is added where the sign bit is set.
Val from_u64(Builder& b, Val x, DType to) {
  if (is_half(to)) return b.cast(from_u64(b, x, DType::kFloat32), to);
  Val word = b.op(Kind::kBitcast, {x}, core::IndexOptions{DType::kInt64});
  Val cast = b.cast(word, to);
  if (!stream::is_float(to)) return cast;
  constexpr double kTwoTo64 = 18446744073709551616.0;
  const Val wrapped = b.add(cast, kTwoTo64);
  return b.select(b.less(word, b.scalar(0, DType::kInt64)), wrapped, cast);
}

// What a cast to 4 bits keeps the low bits of.
Val whole_number(Builder& b, Val x) { return stream::is_float(b.dtype(x)) ? b.round(x) : x; }

Val to_4_bits(Builder& b, Val x, DType to) {
  constexpr double kCount = 16;
  const double least = to == DType::kInt4 ? -kCount / 2 : 0;
  const Val whole = b.sub(b.cast(whole_number(b, x), DType::kInt32), least);
  const Val low = b.add(b.floor_mod(whole, b.scalar(kCount, DType::kInt32)), least);
  return b.cast(b.cast(low, DType::kFloat32), to);
}

Val from_4_bits(Builder& b, Val x, DType to) {
  const Val real = b.cast(x, DType::kFloat32);
  if (stream::is_float(to)) return b.cast(real, to);
  const Val whole = b.cast(real, DType::kInt32);
  return has_4_bits(to) ? to_4_bits(b, whole, to) : cast_through_i64(b, whole, to);
}

// Of f32.
void from_real(Lowering& lo, Val x, DType to) {
  Builder& b = lo.b;
  if (stream::is_small_float(to)) return lo.output(0, to_small_float(lo, x, to));
  if (has_4_bits(to)) return lo.output(0, to_4_bits(b, x, to));
  lo.output(0, to == DType::kUint64 ? to_u64(b, x) : b.cast(x, to));
}

void cast_to(Lowering& lo, DType to) {
  Builder& b = lo.b;
  Val x = lo.input(0);
  const DType from = lo.dtype(x);
  const bool to_small = stream::is_small_float(to);
  if (from == to || !to_small) {
    lo.ignore_attr("saturate");
    lo.ignore_attr("round_mode");
  }
  if (from == to) return lo.output(0, x);
  if (stream::is_small_float(from)) {
    refuse(lo, to);
    return from_real(lo, b.cast(x, DType::kFloat32), to);
  }
  if (to_small) {
    refuse(lo, from);
    return from_real(
        lo, from == DType::kUint64 && !b.is_constant(x) ? from_u64(b, x, DType::kFloat32) : as_floats(b, x), to);
  }
  if (!b.is_constant(x) || from == DType::kString || to == DType::kString) {
    refuse(lo, from);
    refuse(lo, to);
    if (has_4_bits(from)) return lo.output(0, from_4_bits(b, x, to));
    if (has_4_bits(to))
      return lo.output(0, to_4_bits(b, from == DType::kUint64 ? from_u64(b, x, DType::kInt32) : x, to));
    if (from == DType::kUint64) return lo.output(0, from_u64(b, x, to));
    if (to == DType::kUint64) return lo.output(0, stream::is_float(from) ? to_u64(b, x) : cast_through_i64(b, x, to));
  }
  lo.output(0, b.cast(has_4_bits(to) ? whole_number(b, x) : x, to));
}

}  // namespace

void lower_cast(Lowering& lo) {
  if (lo.opset() < 6)
    lo.unsupported("a type that is named by a string (opsets 1 to 5) is not supported",
                   "convert the model to opset 6 or later");
  const int64_t number = lo.need_attr_i("to");
  auto to = stream::onnx_dtype(number);
  if (!to || *to == DType::kUndefined) lo.malformed(fmt::format("attribute 'to' has the unknown data type {}", number));
  cast_to(lo, *to);
}

// A value of halves is not rounded where it stays one.
void lower_cast_like(Lowering& lo) {
  const DType to = lo.onnx_dtype(1);
  cast_to(lo, to == lo.onnx_dtype(0) ? lo.dtype(lo.input(0)) : to);
}

}  // namespace lowtide::layout
