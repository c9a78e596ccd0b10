// SPDX-License-Identifier: Apache-2.0
// Cast, CastLike. Both formats cut floats towards zero on the way to integers, and take any number but 0 for true. What
// TFLite lacks: strings, complex numbers, 8-bit and 4-bit floats, and any cast from or to u64. Integers of 4 bits have
// casts from and to f32 alone, and a float that is too large saturates: ONNX keeps the low bits.
#include <fmt/format.h>

#include "layout/lower/lowering.h"

namespace lowtide::layout {

namespace {

bool has_kernel(DType dtype) {
  return stream::is_float(dtype) || dtype == DType::kBool || (stream::is_integer(dtype) && stream::bits(dtype) >= 8);
}

bool has_4_bits(DType dtype) { return dtype == DType::kInt4 || dtype == DType::kUint4; }

void refuse(Lowering& lo, DType dtype) {
  if (has_kernel(dtype) || has_4_bits(dtype)) return;
  lo.unsupported(fmt::format("no kernel casts from or to {}", dtype_name(dtype)),
                 "run the cast outside the model, or make its input an initializer");
}

// u64 has no CAST: its bits are those of an i64, which counts 2^64 less where the top bit is set.
Val from_u64(Builder& b, Val x, DType to) {
  Val word = b.op(Kind::kBitcast, {x}, core::IndexOptions{DType::kInt64});
  Val cast = b.cast(word, to);
  if (!stream::is_float(to)) return cast;
  constexpr double kTwoTo64 = 18446744073709551616.0;
  return b.select(b.less(word, b.scalar(0, DType::kInt64)), b.add(cast, kTwoTo64), cast);
}

Val cut_to_4_bits(Builder& b, Val x, DType to) {
  constexpr double kCount = 16;
  const double least = to == DType::kInt4 ? -kCount / 2 : 0;
  const Val whole = b.sub(b.cast(x, DType::kInt32), least);
  const Val low = b.add(b.floor_mod(whole, b.scalar(kCount, DType::kInt32)), least);
  return b.cast(b.cast(low, DType::kFloat32), to);
}

void cast_to(Lowering& lo, DType to) {
  Builder& b = lo.b;
  Val x = lo.input(0);
  const DType from = lo.dtype(x);
  // Only casts to 8-bit floats have a choice to saturate or to round; those have no kernel.
  lo.ignore_attr("saturate");
  lo.ignore_attr("round_mode");
  if (from == to) return lo.output(0, x);
  if (!b.is_constant(x) || from == DType::kString || to == DType::kString) {
    refuse(lo, from);
    refuse(lo, to);
    if (has_4_bits(from) && to != DType::kUint64) return lo.output(0, b.cast(b.cast(x, DType::kFloat32), to));
    if (has_4_bits(to) && from != DType::kUint64) return lo.output(0, cut_to_4_bits(b, x, to));
    if (has_4_bits(from) || has_4_bits(to))
      lo.unsupported(fmt::format("no kernel casts from {} to {}", dtype_name(from), dtype_name(to)),
                     "cast by way of int64");
    if (from == DType::kUint64) return lo.output(0, from_u64(b, x, to));
    if (to == DType::kUint64)
      return lo.output(0, b.op(Kind::kBitcast, {b.cast(x, DType::kInt64)}, core::IndexOptions{to}));
  }
  lo.output(0, b.cast(x, to));
}

}  // namespace

void lower_cast(Lowering& lo) {
  // Opsets 1 to 5 name the type by a string.
  if (lo.opset() < 6) lo.unsupported("Cast before opset 6 names its type by a string", "convert the model to opset 6");
  const int64_t number = lo.need_attr_i("to");
  auto to = stream::onnx_dtype(number);
  if (!to || *to == DType::kUndefined) lo.malformed(fmt::format("data type {} is not known", number));
  cast_to(lo, *to);
}

void lower_cast_like(Lowering& lo) { cast_to(lo, lo.dtype(lo.input(1))); }

}  // namespace lowtide::layout
