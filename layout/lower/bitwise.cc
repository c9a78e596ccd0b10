// SPDX-License-Identifier: Apache-2.0
// BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot, BitShift, BitCast. TFLite has BITWISE_XOR and RIGHT_SHIFT up to 32
// bits, and StableHLO's AND for all widths. The rest is composed of arithmetic modulo 2^n: integers wrap in ONNX and in
// the kernels.
#include "layout/lower/elementwise.h"
#include "layout/lower/unsigned.h"

namespace lowtide::layout {

namespace {

bool is_64_bit(DType dtype) { return stream::bits(dtype) == 64; }

// Few kernels take uint64. Modulo 2^64 its arithmetic is that of int64.
struct Words {
  Val a, b;
  DType dtype;
};
Words signed_words(Lowering& lo) {
  Val a = lo.input(0), b = lo.input(1);
  const DType dtype = lo.dtype(a);
  if (dtype != DType::kUint64) return {a, b, dtype};
  return {bitcast_to(lo.b, a, DType::kInt64), bitcast_to(lo.b, b, DType::kInt64), dtype};
}

Val bit_and(Builder& b, Val x, Val y) { return b.op(Kind::kStablehloAnd, {x, y}); }

Val bit_xor(Builder& b, Val x, Val y) {
  if (!is_64_bit(b.dtype(x))) return b.bitwise_xor(x, y);
  Val both = bit_and(b, x, y);  // x + y = (x ^ y) + 2 (x & y)
  return b.sub(b.sub(b.add(x, y), both), both);
}

Val bit_or(Builder& b, Val x, Val y) {
  Val both = bit_and(b, x, y);
  if (!is_64_bit(b.dtype(x))) return b.bitwise_xor(b.bitwise_xor(x, y), both);
  return b.sub(b.add(x, y), both);  // x + y = (x | y) + (x & y)
}

}  // namespace

void lower_bitwise_and(Lowering& lo) { lo.output(0, bit_and(lo.b, lo.input(0), lo.input(1))); }

void lower_bitwise_or(Lowering& lo) {
  Words words = signed_words(lo);
  lo.output(0, bitcast_to(lo.b, bit_or(lo.b, words.a, words.b), words.dtype));
}

void lower_bitwise_xor(Lowering& lo) {
  Words words = signed_words(lo);
  lo.output(0, bitcast_to(lo.b, bit_xor(lo.b, words.a, words.b), words.dtype));
}

void lower_bitwise_not(Lowering& lo) { lo.output(0, bitwise_complement(lo.b, lo.input(0))); }

namespace {

// 2^count for counts of 0 to 63, as i64: looked up, since POW has no 64-bit kernel.
Val power_of_two(Builder& b, Val count) {
  std::vector<int64_t> powers;
  for (int i = 0; i < 64; ++i) powers.push_back(static_cast<int64_t>(uint64_t{1} << i));
  Val table{b.graph.add_ints(powers, DType::kInt64, {64})};
  return b.gather(table, b.cast(bitcast_to(b, count, DType::kInt64), DType::kInt32), 0);
}

}  // namespace

// The result of shifting by the type's width or more is not defined, in ONNX and in the kernels.
void lower_bit_shift(Lowering& lo) {
  Val x = lo.input(0), count = lo.input(1);
  const DType dtype = lo.dtype(x);
  const std::string direction = lo.attr_s("direction", "");
  if (direction == "RIGHT") {
    if (dtype == DType::kUint64) return lo.output(0, unsigned_shift_right(lo.b, x, count));
    return lo.output(0, lo.b.right_shift(x, count));
  }
  if (direction != "LEFT") lo.malformed("attribute 'direction' must be 'LEFT' or 'RIGHT'; it is '" + direction + "'");
  if (dtype == DType::kUint64) {
    const Val factor = power_of_two(lo.b, count);
    Val product = lo.b.mul(bitcast_to(lo.b, x, DType::kInt64), factor);
    return lo.output(0, bitcast_to(lo.b, product, dtype));
  }
  const DType same_width = dtype == DType::kUint8    ? DType::kInt8
                           : dtype == DType::kUint16 ? DType::kInt16
                           : dtype == DType::kUint32 ? DType::kInt32
                                                     : dtype;
  Val shifted =
      lo.b.op(Kind::kStablehloShiftLeft, {bitcast_to(lo.b, x, same_width), bitcast_to(lo.b, count, same_width)});
  lo.output(0, bitcast_to(lo.b, shifted, dtype));
}

// Between numbers of one width. Halves and doubles are computed in floats here, so their bits are not at hand.
void lower_bit_cast(Lowering& lo) {
  const DType from = lo.onnx_dtype(0), to = lo.attr_dtype("to", DType::kUndefined);
  if (to == DType::kUndefined) lo.malformed("attribute 'to' is missing");
  if (from == to) return lo.output(0, lo.input(0));
  const auto name = [](DType dtype) { return std::string(stream::dtype_name(dtype)); };
  if (stream::bits(from) != stream::bits(to))
    lo.malformed("'to' must be of the input's width: " + name(from) + " to " + name(to));
  for (DType dtype : {from, to})
    if (dtype != DType::kFloat32 && (!stream::is_integer(dtype) || stream::bits(dtype) < 8))
      lo.unsupported("the bits of " + name(dtype) + " are not kept",
                     "integers of 8 bits and more, and float32, can be reinterpreted");
  lo.output(0, bitcast_to(lo.b, lo.input(0), to));
}

}  // namespace lowtide::layout
