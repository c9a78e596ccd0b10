// Operators on bits. TFLite has BITWISE_XOR and RIGHT_SHIFT up to 32 bits, and StableHLO's AND for all widths; what is
// missing follows from arithmetic modulo 2^n, which wraps in ONNX and in the kernels alike.
#include "layout/lower/operands.h"

namespace lowtide::layout {

namespace {

bool is_64_bit(DType dtype) { return stream::bits(dtype) == 64; }

// The same bits as another integer type of the same width.
Val as(Builder& b, Val x, DType to) { return b.dtype(x) == to ? x : b.op(Kind::kBitcast, {x}, core::IndexOptions{to}); }

// Unsigned 64-bit integers have hardly any kernel; modulo 2^64 their arithmetic is that of the signed ones.
struct Words {
  Val a, b;
  DType dtype;
};
Words signed_words(Lowering& lo) {
  Val a = lo.input(0), b = lo.input(1);
  const DType dtype = lo.dtype(a);
  if (dtype != DType::kUint64) return {a, b, dtype};
  return {as(lo.b, a, DType::kInt64), as(lo.b, b, DType::kInt64), dtype};
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
  lo.output(0, as(lo.b, bit_or(lo.b, words.a, words.b), words.dtype));
}

void lower_bitwise_xor(Lowering& lo) {
  Words words = signed_words(lo);
  lo.output(0, as(lo.b, bit_xor(lo.b, words.a, words.b), words.dtype));
}

void lower_bitwise_not(Lowering& lo) {
  Val x = lo.input(0);
  const DType dtype = lo.dtype(x);
  // All bits but x's are -1 - x.
  Val word = dtype == DType::kUint64 ? as(lo.b, x, DType::kInt64) : x;
  if (stream::is_signed_int(lo.dtype(word))) {
    lo.output(0, as(lo.b, lo.b.sub(lo.b.scalar_like(-1, word), word), dtype));
  } else {
    const double all_ones = static_cast<double>((uint64_t{1} << stream::bits(dtype)) - 1);
    lo.output(0, lo.b.bitwise_xor(x, lo.b.scalar_like(all_ones, x)));
  }
}

namespace {

// 2^count for counts of 0 to 63, as i64: looked up, since POW has no 64-bit kernel.
Val power_of_two(Builder& b, Val count) {
  std::vector<int64_t> powers;
  for (int i = 0; i < 64; ++i) powers.push_back(static_cast<int64_t>(uint64_t{1} << i));
  Val table{b.graph.add_ints(powers, DType::kInt64, {64})};
  return b.gather(table, b.cast(as(b, count, DType::kInt64), DType::kInt32), 0);
}

}  // namespace

// The result of shifting by the type's width or more is not defined, in ONNX and in the kernels.
void lower_bit_shift(Lowering& lo) {
  Val x = lo.input(0), count = lo.input(1);
  const DType dtype = lo.dtype(x);
  const std::string direction = lo.attr_s("direction", "");
  if (direction == "RIGHT") {
    if (dtype == DType::kUint64)
      lo.unsupported("no kernel shifts 64-bit integers to the right", "cast them to uint32 where the values allow it");
    return lo.output(0, lo.b.right_shift(x, count));
  }
  if (direction != "LEFT") lo.malformed("attribute 'direction' must be LEFT or RIGHT");
  if (dtype == DType::kUint64) {
    Val product = lo.b.mul(as(lo.b, x, DType::kInt64), power_of_two(lo.b, count));
    return lo.output(0, as(lo.b, product, dtype));
  }
  const DType same_width = dtype == DType::kUint8    ? DType::kInt8
                           : dtype == DType::kUint16 ? DType::kInt16
                           : dtype == DType::kUint32 ? DType::kInt32
                                                     : dtype;
  Val shifted = lo.b.op(Kind::kStablehloShiftLeft, {as(lo.b, x, same_width), as(lo.b, count, same_width)});
  lo.output(0, as(lo.b, shifted, dtype));
}

}  // namespace lowtide::layout
