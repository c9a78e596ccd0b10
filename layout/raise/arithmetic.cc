// SPDX-License-Identifier: Apache-2.0
// Elementwise arithmetic, comparisons, conversions between element types.
//
// The traps: TFLite's FLOOR_DIV and FLOOR_MOD round down, ONNX's Div of integers towards zero. CAST of a float beyond
// the range of its target, or of NaN, saturates in LiteRT and is undefined in ONNX.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "layout/raise/families.h"
#include "layout/raise/raising.h"
#include "layout/raise/saturation.h"

namespace lowtide::layout {
namespace {

bool is_real(const Raising& r, size_t i) { return stream::is_float(r.in(i).dtype) || r.in(i).quantization.has_value(); }

// A node of the same name and number of inputs.
template <const char* kType>
void raise_node(Raising& r) {
  Names inputs;
  for (size_t i = 0; i < r.op.inputs.size(); ++i) inputs.push_back(r.real(i));
  r.give(r.node(kType, std::move(inputs)));
}

// ONNX Runtime's Max and Min have no narrow integers.
template <std::string (Raising::*kExtreme)(const std::string&, const std::string&, DType)>
void raise_extreme(Raising& r) {
  const DType dtype = r.in(0).dtype;
  const bool is_taken = is_real(r, 0) || stream::bits(dtype) >= 32;
  const auto operand = [&](size_t i) { return is_taken ? r.real(i) : r.cast(r.stored(i), DType::kInt32); };
  const std::string a = operand(0), b = operand(1);
  if (is_taken) return r.give((r.*kExtreme)(a, b, real_type(r.in(0))));
  r.give_stored(r.cast((r.*kExtreme)(a, b, DType::kInt32), dtype));
}

// ONNX Runtime compares no integers of 16 bits; LiteRT compares those without a scale as they are.
template <const char* kType>
void raise_comparison(Raising& r) {
  if (r.in(0).dtype != DType::kInt16 || !r.is_widened(0) || !r.is_widened(1)) return raise_node<kType>(r);
  r.give(r.node(kType, {r.cast(r.stored(0), DType::kInt32), r.cast(r.stored(1), DType::kInt32)}));
}

// LiteRT orders integers of 16 bits as they are stored, whatever their scales.
template <const char* kType>
void raise_order(Raising& r) {
  if (r.in(0).dtype != DType::kInt16 || r.in(1).dtype != DType::kInt16) return raise_node<kType>(r);
  r.give(r.node(kType, {r.cast(r.stored(0), DType::kInt32), r.cast(r.stored(1), DType::kInt32)}));
}

// The same bits as another integer type, which is what Cast gives beyond the range of its target; between floats and
// integers BitCast, which takes an opset of its own (needs_bit_cast() of raise_model.cc).
void raise_bitcast(Raising& r) {
  const DType from = r.in(0).dtype, to = r.out().dtype;
  if (from == to) return r.give_stored(r.node("Identity", {r.stored(0)}));
  if (stream::is_integer(from) && stream::is_integer(to)) return r.give_stored(r.cast(r.stored(0), to));
  const auto is_number = [](DType dtype) { return stream::is_integer(dtype) || stream::is_float(dtype); };
  if (!is_number(from) || !is_number(to))
    r.unsupported(fmt::format("the bits of {} as {}, which ONNX Runtime's BitCast does not give", dtype_name(from),
                              dtype_name(to)));
  r.give_stored(r.node("BitCast", {r.stored(0)}, {attribute("to", onnx_type(to))}));
}

// Whether the sign bit is set: of -0 and of minus infinity too.
std::string is_below_zero(Raising& r, const std::string& x) {
  const std::string zero = r.scalar(0, DType::kFloat32);
  return r.node("Or", {r.node("Less", {x, zero}), r.node("Less", {r.node("Reciprocal", {x}), zero})});
}

// The angle in the first quadrant, mirrored by the signs as C's atan2 does it. Of equal magnitudes (two infinities
// among them) the quotient is 1; of y = 0 the angle is 0, also where x is 0.
std::string arc_tangent(Raising& r, const std::string& y, const std::string& x) {
  const std::string height = r.node("Abs", {y}), width = r.node("Abs", {x}), zero = r.scalar(0, DType::kFloat32);
  const std::string quotient =
      r.node("Where", {r.node("Equal", {height, width}), r.scalar(1, DType::kFloat32), r.node("Div", {height, width})});
  // NaN, where x is one.
  const std::string flat = r.node("Where", {r.node("Equal", {x, x}), zero, x});
  const std::string angle = r.node("Where", {r.node("Equal", {height, zero}), flat, r.node("Atan", {quotient})});
  const std::string behind = r.node("Sub", {r.scalar(std::acos(-1.0), DType::kFloat32), angle});
  const std::string half = r.node("Where", {is_below_zero(r, x), behind, angle});
  // A product, because ONNX Runtime's Where gives 0 for -0.
  const std::string minus = r.scalar(-1, DType::kFloat32), plus = r.scalar(1, DType::kFloat32);
  return r.node("Mul", {half, r.node("Where", {is_below_zero(r, y), minus, plus})});
}

void raise_atan2(Raising& r) {
  const auto x = r.graph.numbers(r.op.inputs[1]);
  const bool is_one = x && std::all_of(x->begin(), x->end(), [](double one) { return one == 1; });
  if (is_one && r.in(0).shape == r.out().shape) return r.give(r.node("Atan", {r.real(0)}));
  const DType dtype = r.in(0).dtype;
  if (real_type(r.in(0)) != DType::kFloat32)
    r.unsupported(fmt::format("ATAN2 of two tensors of {}; ONNX Runtime has Atan of float32", dtype_name(dtype)));
  r.give(arc_tangent(r, r.real(0), r.real(1)));
}

template <const char* kType>
void raise_activated(Raising& r) {
  r.give_activated(r.node(kType, {r.real(0), r.real(1)}), r.options<core::BinaryOptions>().activation);
}

void raise_rsqrt(Raising& r) { r.give(r.node("Reciprocal", {r.node("Sqrt", {r.real(0)})})); }

void raise_square(Raising& r) {
  const std::string x = r.real(0);
  r.give(r.node("Mul", {x, x}));
}

std::string python_modulo(Raising& r, const std::string& a, const std::string& b) {
  if (!is_real(r, 0)) return r.node("Mod", {a, b});  // integers: the divisor's sign
  const std::string rest = r.node("Mod", {a, b}, {attribute("fmod", int64_t{1})});
  const std::string zero = r.scalar(0, real_type(r.in(0)));
  const std::string differs = r.node("Xor", {r.node("Less", {rest, zero}), r.node("Less", {b, zero})});
  const std::string is_zero = r.node("Equal", {rest, zero});
  const std::string moves = r.node("And", {differs, r.node("Not", {is_zero})});
  return r.node("Where", {moves, r.node("Add", {rest, b}), rest});
}

constexpr const char* kIgnoresScales = "integers with a scale, which LiteRT's kernel does not look at";

// LiteRT's kernels divide the integers as they are stored, whatever their scales.
void refuse_scales(const Raising& r) {
  if (r.in(0).quantization || r.in(1).quantization || r.out().quantization) r.unsupported(kIgnoresScales);
}

bool is_centred(const core::Quantization& some) {
  return std::all_of(some.zero_point.begin(), some.zero_point.end(), [](int64_t zero) { return zero == 0; });
}

// LiteRT's kernel negates the integers as they are stored: numbers, where they have one scale and the zero point 0.
// ONNX Runtime's wraps as it does.
void raise_negation(Raising& r) {
  const auto &from = r.in(0).quantization, &to = r.out().quantization;
  if ((from || to) && !(from == to && is_centred(*from))) r.unsupported(kIgnoresScales);
  if (from && stream::is_signed_int(r.in(0).dtype)) return r.give_stored(r.node("Neg", {r.stored(0)}));
  r.give(r.node("Neg", {r.real(0)}));
}

void raise_floor_mod(Raising& r) {
  refuse_scales(r);
  r.give(python_modulo(r, r.real(0), r.real(1)));
}

// LiteRT divides floats as doubles. Of integers the remainder is taken off first, in 64 bits, because the difference
// may pass the end of their range.
void raise_floor_div(Raising& r) {
  refuse_scales(r);
  const DType dtype = r.in(0).dtype;
  const DType wide = stream::is_float(dtype) ? DType::kFloat64 : DType::kInt64;
  const auto widened = [&](size_t i) { return dtype == wide ? r.stored(i) : r.cast(r.stored(i), wide); };
  const std::string a = widened(0), b = widened(1);
  const std::string made = stream::is_float(dtype) ? r.node("Floor", {r.node("Div", {a, b})})
                                                   : r.node("Div", {r.node("Sub", {a, r.node("Mod", {a, b})}), b});
  r.give_stored(dtype == wide ? made : r.cast(made, dtype));
}

// LiteRT's kernel of 16 bits multiplies by scales, unlike that of EQUAL.
void raise_not_equal(Raising& r) { r.give(r.node("Not", {r.node("Equal", {r.real(0), r.real(1)})})); }

// ONNX Runtime's Where has these types.
constexpr DType kSelected[] = {DType::kFloat32, DType::kInt32, DType::kInt64, DType::kUint8, DType::kInt8};
bool is_selected(DType dtype) {
  return std::find(std::begin(kSelected), std::end(kSelected), dtype) != std::end(kSelected);
}

void raise_select(Raising& r) {
  const DType dtype = r.out().dtype;
  if (is_selected(dtype) || r.out().quantization) {
    const bool stored = r.moves_stored(kSelected);
    const std::string made = r.node("Where", {r.stored(0), stored ? r.stored(1) : r.real(1),  //
                                              stored ? r.stored(2) : r.real(2)});
    return stored ? r.give_stored(made) : r.give(made);
  }
  const DType wide = stream::is_float(dtype) ? DType::kFloat32 : DType::kInt64;
  r.give_stored(r.cast(r.node("Where", {r.stored(0), r.cast(r.stored(1), wide), r.cast(r.stored(2), wide)}), dtype));
}

// Floats as integers, as LiteRT saturates them. What Cast makes of NaN and of floats above the range is not chosen.
void raise_saturating_cast(Raising& r) {
  const DType from = r.in(0).dtype, to = r.out().dtype;
  const DType real = from == DType::kFloat64 ? from : DType::kFloat32, whole = is_selected(to) ? to : DType::kInt64;
  const Saturation limits(to);
  const std::string x = from == real ? r.stored(0) : r.cast(r.stored(0), real);
  const std::string number = r.cast(r.node("Max", {x, r.scalar(limits.low, real)}), whole);
  const std::string most = r.onnx.initializer(stream::recipe::ints(std::array{limits.most}, whole, {}), "constant");
  const std::string is_inside = r.node("Less", {x, r.scalar(limits.above, real)});
  const std::string made = r.node("Where", {is_inside, number, most});
  r.give_stored(whole == to ? made : r.cast(made, to));
}

// Of the stored integers: LiteRT does not look at scales here.
void raise_cast(Raising& r) {
  const DType from = r.in(0).dtype, to = r.out().dtype;
  if (from == to) return r.give_stored(r.node("Identity", {r.stored(0)}));
  if (stream::is_float(from) && stream::is_integer(to) && Saturation::has_form(to)) return raise_saturating_cast(r);
  r.give_stored(r.cast(r.stored(0), to));
}

void raise_quantize(Raising& r) {
  if (!r.out().quantization) r.unsupported("the result has no scale");
  r.give(r.real(0));
}

// Not through real(): other ops may read the same integers.
void raise_dequantize(Raising& r) {
  const core::Value& x = r.in(0);
  if (x.dtype == DType::kFloat16) return r.give(r.cast(r.stored(0), DType::kFloat32));
  if (!x.quantization) r.unsupported(fmt::format("the {} input has no scale", stream::dtype_name(x.dtype)));
  r.give(r.onnx.dequantized(r.stored(0), *x.quantization, x.dtype, false));
}

#define LOWTIDE_ONNX_TYPE(name) constexpr char k##name[] = #name
LOWTIDE_ONNX_TYPE(Abs);
LOWTIDE_ONNX_TYPE(Exp);
LOWTIDE_ONNX_TYPE(Log);
LOWTIDE_ONNX_TYPE(Sqrt);
LOWTIDE_ONNX_TYPE(Sin);
LOWTIDE_ONNX_TYPE(Cos);
LOWTIDE_ONNX_TYPE(Floor);
LOWTIDE_ONNX_TYPE(Ceil);
LOWTIDE_ONNX_TYPE(Round);
LOWTIDE_ONNX_TYPE(Sign);
LOWTIDE_ONNX_TYPE(Not);
LOWTIDE_ONNX_TYPE(Add);
LOWTIDE_ONNX_TYPE(Sub);
LOWTIDE_ONNX_TYPE(Mul);
LOWTIDE_ONNX_TYPE(Div);
LOWTIDE_ONNX_TYPE(Pow);
LOWTIDE_ONNX_TYPE(Equal);
LOWTIDE_ONNX_TYPE(Less);
LOWTIDE_ONNX_TYPE(LessOrEqual);
LOWTIDE_ONNX_TYPE(Greater);
LOWTIDE_ONNX_TYPE(GreaterOrEqual);
LOWTIDE_ONNX_TYPE(And);
LOWTIDE_ONNX_TYPE(Or);
#undef LOWTIDE_ONNX_TYPE

void raise_pow(Raising& r) {
  const DType dtype = r.in(0).dtype;
  if (!is_real(r, 0) && !stream::is_signed_int(dtype))
    r.unsupported(fmt::format("powers of {}, which ONNX's Pow does not take", dtype_name(dtype)));
  raise_node<kPow>(r);
}

// Of two tensors of i16 with a result of 8 bits, LiteRT's kernel returns the high 8 bits of the product of fractions,
// whatever the scales.
void raise_mul(Raising& r) {
  const core::Value &a = r.in(0), &b = r.in(1), &result = r.out();
  if (a.dtype == DType::kInt16 && b.dtype == DType::kInt16 && stream::bits(result.dtype) == 8) {
    constexpr double kUnit = 0x1p-23;
    const auto is_one_scale = [](const core::Value& value) {
      return value.quantization && value.quantization->scale.size() == 1;
    };
    const auto scale = [](const core::Value& value) { return double{value.quantization->scale[0]}; };
    const bool fits = is_one_scale(a) && is_one_scale(b) && is_one_scale(result) && is_centred(*a.quantization) &&
                      is_centred(*b.quantization) && scale(a) * scale(b) == kUnit * scale(result);
    if (!fits) r.unsupported(kIgnoresScales);
  }
  raise_activated<kMul>(r);
}

constexpr RaiseRow kArithmetic[] = {
    {Kind::kAbs, 1, 1, raise_node<kAbs>, Takes::kNumbers},
    {Kind::kNeg, 1, 1, raise_negation, Takes::kNumbers},
    {Kind::kExp, 1, 1, raise_node<kExp>, Takes::kReals},
    {Kind::kLog, 1, 1, raise_node<kLog>, Takes::kReals},
    {Kind::kSqrt, 1, 1, raise_node<kSqrt>, Takes::kReals},
    {Kind::kRsqrt, 1, 1, raise_rsqrt, Takes::kReals},
    {Kind::kSquare, 1, 1, raise_square, Takes::kNumbers},
    {Kind::kSin, 1, 1, raise_node<kSin>, Takes::kReals},
    {Kind::kCos, 1, 1, raise_node<kCos>, Takes::kReals},
    {Kind::kFloor, 1, 1, raise_node<kFloor>, Takes::kReals},
    {Kind::kCeil, 1, 1, raise_node<kCeil>, Takes::kReals},
    {Kind::kRound, 1, 1, raise_node<kRound>, Takes::kReals},
    {Kind::kSign, 1, 1, raise_node<kSign>, Takes::kNumbers},
    {Kind::kLogicalNot, 1, 1, raise_node<kNot>},
    {Kind::kAdd, 2, 2, raise_activated<kAdd>, Takes::kNumbers},
    {Kind::kSub, 2, 2, raise_activated<kSub>, Takes::kNumbers},
    {Kind::kMul, 2, 2, raise_mul, Takes::kNumbers},
    {Kind::kDiv, 2, 2, raise_activated<kDiv>, Takes::kNumbers},
    {Kind::kFloorDiv, 2, 2, raise_floor_div, Takes::kNumbers},
    {Kind::kFloorMod, 2, 2, raise_floor_mod, Takes::kNumbers},
    {Kind::kMaximum, 2, 2, raise_extreme<&Raising::larger>, Takes::kNumbers},
    {Kind::kMinimum, 2, 2, raise_extreme<&Raising::smaller>, Takes::kNumbers},
    {Kind::kPow, 2, 2, raise_pow, Takes::kNumbers},
    {Kind::kEqual, 2, 2, raise_comparison<kEqual>},
    {Kind::kNotEqual, 2, 2, raise_not_equal},
    {Kind::kLess, 2, 2, raise_order<kLess>, Takes::kNumbers},
    {Kind::kLessEqual, 2, 2, raise_order<kLessOrEqual>, Takes::kNumbers},
    {Kind::kGreater, 2, 2, raise_order<kGreater>, Takes::kNumbers},
    {Kind::kGreaterEqual, 2, 2, raise_order<kGreaterOrEqual>, Takes::kNumbers},
    {Kind::kLogicalAnd, 2, 2, raise_node<kAnd>},
    {Kind::kLogicalOr, 2, 2, raise_node<kOr>},
    {Kind::kSelectV2, 3, 3, raise_select},
    {Kind::kCast, 1, 1, raise_cast},
    {Kind::kBitcast, 1, 1, raise_bitcast},
    {Kind::kAtan2, 2, 2, raise_atan2, Takes::kReals},
    {Kind::kQuantize, 1, 1, raise_quantize},
    {Kind::kDequantize, 1, 1, raise_dequantize},
};

}  // namespace

std::span<const RaiseRow> raised_arithmetic() { return kArithmetic; }

}  // namespace lowtide::layout
