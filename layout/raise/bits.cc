// SPDX-License-Identifier: Apache-2.0
// BITWISE_XOR, STABLEHLO_AND, RIGHT_SHIFT, STABLEHLO_SHIFT_LEFT.
//
// ONNX's BitShift has unsigned integers only; LiteRT shifts signed ones arithmetically, and takes a number of places
// below 0 as 0, one beyond the type's bits as the bits less one.
// Source of semantics: tensorflow/lite/kernels/bitwise_xor.cc, right_shift.cc.
#include <fmt/format.h>

#include <cmath>

#include "layout/raise/families.h"
#include "layout/raise/raising.h"

namespace lowtide::layout {
namespace {

// Those that LiteRT's kernels take.
void need_plain_integers(Raising& r, int most_bits = 32) {
  const DType dtype = r.in(0).dtype;
  constexpr int kLeastBits = 8;
  if (!stream::is_integer(dtype) || stream::bits(dtype) < kLeastBits || stream::bits(dtype) > most_bits)
    r.unsupported(fmt::format("data of {}; LiteRT has integers of 8 to {} bits", dtype_name(dtype), most_bits));
}

// Of an i64 tensor.
std::string at_most(Raising& r, const std::string& x, int most) {
  return r.smaller(x, r.scalar(most, DType::kInt64), DType::kInt64);
}

// Of the stored integers: the kernels do not look at scales.
void raise_xor(Raising& r) {
  need_plain_integers(r);
  r.give_stored(r.node("BitwiseXor", {r.stored(0), r.stored(1)}));
}

void raise_and(Raising& r) {
  if (r.in(0).dtype == DType::kBool) return r.give_stored(r.node("And", {r.stored(0), r.stored(1)}));
  need_plain_integers(r, 64);
  r.give_stored(r.node("BitwiseAnd", {r.stored(0), r.stored(1)}));
}

// What is shifted out is lost; a number of places below 0 or beyond the type's bits leaves zeros.
void raise_shift_left(Raising& r) {
  need_plain_integers(r);
  const DType dtype = r.in(0).dtype;
  const std::string places = r.cast(r.stored(1), DType::kInt64), bits = r.scalar(stream::bits(dtype), DType::kInt64);
  const std::string is_below = r.node("Less", {places, r.scalar(0, DType::kInt64)});
  const std::string by = at_most(r, r.node("Where", {is_below, bits, places}), stream::bits(dtype));
  const std::string x = r.cast(r.cast(r.stored(0), DType::kInt64), DType::kUint64);
  const std::string made = r.node("BitShift", {x, r.cast(by, DType::kUint64)},  //
                                  {attribute("direction", std::string_view("LEFT"))});
  r.give_stored(r.cast(r.cast(made, DType::kInt64), dtype));
}

// x >> n is ((x + 2^31) >> n) - (2^31 >> n), without a rest for n up to 31.
void raise_right_shift(Raising& r) {
  need_plain_integers(r);
  const DType dtype = r.in(0).dtype;
  const Attributes right = {attribute("direction", std::string_view("RIGHT"))};
  const std::string given = r.cast(r.stored(1), DType::kInt64), zero = r.scalar(0, DType::kInt64);
  const std::string low = r.node("Where", {r.node("Less", {given, zero}), zero, given});
  const std::string places = r.cast(at_most(r, low, stream::bits(dtype) - 1), DType::kUint64);
  if (!stream::is_signed_int(dtype)) {
    const std::string x = r.cast(r.stored(0), DType::kUint64);
    return r.give_stored(r.cast(r.node("BitShift", {x, places}, right), dtype));
  }
  constexpr int kMostPlaces = 31;
  const double offset = std::ldexp(1.0, kMostPlaces);
  const std::string x = r.node("Add", {r.cast(r.stored(0), DType::kInt64), r.scalar(offset, DType::kInt64)});
  const auto shifted = [&](const std::string& wide) {
    return r.cast(r.node("BitShift", {wide, places}, right), DType::kInt64);
  };
  const std::string of_x = shifted(r.cast(x, DType::kUint64)), of_offset = shifted(r.scalar(offset, DType::kUint64));
  r.give_stored(r.cast(r.node("Sub", {of_x, of_offset}), dtype));
}

constexpr RaiseRow kBits[] = {
    {Kind::kBitwiseXor, 2, 2, raise_xor},
    {Kind::kStablehloAnd, 2, 2, raise_and},
    {Kind::kRightShift, 2, 2, raise_right_shift},
    {Kind::kStablehloShiftLeft, 2, 2, raise_shift_left},
};

}  // namespace

std::span<const RaiseRow> raised_bits() { return kBits; }

}  // namespace lowtide::layout
