// SPDX-License-Identifier: Apache-2.0
// The elementwise ops.
#include "emit/builtins/row.h"

namespace lowtide::emit {
namespace {

// ---- options ----

// 16-bit quantized sums allow any scale only when the file says that scales need not be powers of two.
bool pot_scale_int16(const Graph& graph, const Op& op) {
  const Value& out = graph.at(op.outputs[0]);
  return !(out.dtype == DType::kInt16 && out.quantization);
}

OptionsTable leaky_relu_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const auto& o = options_of<core::LeakyReluOptions>(op);
  return table_of(tflite::BuiltinOptions::LeakyReluOptions, tflite::CreateLeakyReluOptions(fbb, o.alpha));
}

OptionsTable gelu_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const auto& o = options_of<core::GeluOptions>(op);
  return table_of(tflite::BuiltinOptions::GeluOptions, tflite::CreateGeluOptions(fbb, o.approximate));
}

OptionsTable cast_options(FlatBufferBuilder& fbb, const Graph& graph, const Op& op) {
  const auto from = schema(graph.at(op.inputs[0]).dtype), to = schema(graph.at(op.outputs[0]).dtype);
  return table_of(tflite::BuiltinOptions::CastOptions, tflite::CreateCastOptions(fbb, from, to));
}

OptionsTable add_options(FlatBufferBuilder& fbb, const Graph& graph, const Op& op) {
  const auto activation = schema(options_of<core::BinaryOptions>(op).activation);
  return table_of(tflite::BuiltinOptions::AddOptions,
                  tflite::CreateAddOptions(fbb, activation, pot_scale_int16(graph, op)));
}

OptionsTable sub_options(FlatBufferBuilder& fbb, const Graph& graph, const Op& op) {
  const auto activation = schema(options_of<core::BinaryOptions>(op).activation);
  return table_of(tflite::BuiltinOptions::SubOptions,
                  tflite::CreateSubOptions(fbb, activation, pot_scale_int16(graph, op)));
}

OptionsTable mul_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const auto activation = schema(options_of<core::BinaryOptions>(op).activation);
  return table_of(tflite::BuiltinOptions::MulOptions, tflite::CreateMulOptions(fbb, activation));
}

OptionsTable div_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const auto activation = schema(options_of<core::BinaryOptions>(op).activation);
  return table_of(tflite::BuiltinOptions::DivOptions, tflite::CreateDivOptions(fbb, activation));
}

// ---- versions ----

int abs_version(const OperandTypes& s) {
  if (s.in(0) == kI16) return s.quantized(0) ? 3 : 4;
  return by_type({{kI32, 5}, {kI8, 2}, {kU8, 2}})(s);
}

int cast_version(const OperandTypes& s) {
  if (s.either(kE4M3) || s.either(kE5M2)) return 9;
  if (s.either(kI2) || s.either(kU4)) return 8;
  if (s.either(kBF16)) return 7;
  if (s.in(0) == kI4 && s.out() == kF32) return 6;
  if (s.either(DType::kFloat64) || s.either(kF16)) return 5;
  if (s.either(DType::kUint16)) return 4;
  if (s.either(kI8)) return 3;
  return s.either(kU32) ? 2 : 1;
}

int quantize_version(const OperandTypes& s) {
  if (s.either(kU4)) return 5;
  if (s.either(kI4)) return 4;
  if (s.result().quantization && s.result().quantization->scale.size() > 1) return 3;
  return s.out() == kI16 ? 2 : 1;
}

int dequantize_version(const OperandTypes& s) {
  if (s.in(0) == kI8) return s.per_channel(0) ? 5 : 2;
  return by_type({{kE4M3, 9}, {kE5M2, 9}, {kU4, 8}, {kI2, 7}, {kI4, 6}, {kI16, 3}, {kF16, 3}})(s);
}

int add_version(const OperandTypes& s) {
  if (s.in(0) == kI16) return s.quantized(0) ? 3 : 5;  // we never write power-of-two scales as such
  return by_type({{kF16, 6}, {kI64, 4}, {kI8, 2}})(s);
}

int sub_version(const OperandTypes& s) {
  if (s.in(0) == kI16) return 5;
  if (s.in(0) == kI64) return 4;
  if (s.broadcasts_high_rank()) return 3;
  return s.in(0) == kI8 ? 2 : 1;
}

// A quantized product whose scale is 1 or more needs a kernel that multiplies by more than 1.
bool scales_up(const OperandTypes& s) {
  const Value& out = s.result();
  if (!s.quantized(0) || !s.quantized(1) || !out.quantization) return false;
  auto scale = [](const Value& value) { return value.quantization->scale.at(0); };
  return scale(*s.input(0)) * scale(*s.input(1)) / scale(out) >= 1.0f;
}

int mul_version(const OperandTypes& s) {
  if (s.in(0) == kF16) return 8;
  if ((s.in(0) == kI16 && !s.quantized(0)) || s.in(0) == kU32) return 7;
  if (s.in(0) == kI64) return 5;
  if (s.in(0) == kI16) return 4;
  if (scales_up(s)) return 3;
  return s.in(0) == kI8 ? 2 : 1;
}

int div_version(const OperandTypes& s) { return s.broadcasts_high_rank() ? 2 : 1; }

int extreme_version(const OperandTypes& s) {
  if (s.in(0) == kI16) return 4;
  if (s.broadcasts_high_rank()) return 3;
  return s.in(0) == kI8 ? 2 : 1;
}

constexpr BuiltinForm kElementwiseForms[] = {
    {Kind::kAbs, no_table, abs_version, {"1.13.0", "2.4.0", "2.5.0", "2.6.0", "2.12.0"}},
    {Kind::kNeg, no_table, kOneVersion, {"1.9.0"}},
    {Kind::kExp, no_table, by_type({{kI16, 2}, {kI8, 2}}), {"1.7.0", "2.12.0"}},
    {Kind::kLog, no_table, by_type({{kI16, 2}, {kI8, 2}}), {"1.14.0", "2.15.0"}},
    {Kind::kSqrt, no_table, by_type({{kI16, 2}, {kI8, 2}}), {"1.10.0", "2.21.0"}},
    {Kind::kRsqrt, no_table, by_type({{kI16, 3}, {kI8, 2}}), {"1.10.0", "2.5.0", "2.15.0"}},
    {Kind::kSquare, no_table, kOneVersion, {"1.12.0"}},
    {Kind::kSin, no_table, kOneVersion, {"1.9.0", "2.23.0"}},
    {Kind::kCos, no_table, kOneVersion, {"1.14.0", "2.23.0"}},
    {Kind::kTanh, no_table, by_type({{kI16, 3}, {kI8, 2}}), {"1.14.0", "1.14.0", "2.3.0"}},
    {Kind::kLogistic, no_table, by_type({{kI16, 3}, {kI8, 2}}), {"1.14.0", "1.14.0", "2.3.0"}},
    {Kind::kFloor, no_table, kOneVersion, {"1.9.0"}},
    {Kind::kCeil, no_table, kOneVersion, {"1.14.0"}},
    {Kind::kRound, no_table, kOneVersion, {"1.14.0"}},
    {Kind::kSign, no_table, by_type({{kI32, 2}}), {"2.11.0", "2.12.0"}},
    {Kind::kLogicalNot, no_table, kOneVersion, {"1.11.0"}},
    {Kind::kRelu, no_table, by_type({{kI16, 3}, {kI8, 2}, {kU8, 2}}), {"1.5.0", "2.1.0", "2.5.0"}},
    {Kind::kRelu6, no_table, by_type({{kI16, 3}, {kI8, 2}}), {"1.5.0", "1.14.0", "2.5.0"}},
    {Kind::kReluN1To1, no_table, kOneVersion, {"1.5.0"}},
    {Kind::kRelu0To1, no_table, kOneVersion, {"2.10.0"}},
    {Kind::kElu, no_table, kOneVersion, {"1.14.0"}},
    {Kind::kLeakyRelu, leaky_relu_options, by_type({{kI16, 2}}), {"1.13.1", "2.3.0"}},
    {Kind::kHardSwish, no_table, kOneVersion, {"1.15.0"}},
    {Kind::kGelu, gelu_options, by_type({{kF16, 3}, {kI8, 2}, {kU8, 2}}), {"2.9.0", "2.9.0", "2.23.0"}},
    {Kind::kPrelu, no_table, kOneVersion, {"1.8.0"}},
    {Kind::kCast,
     cast_options,
     cast_version,
     {"1.5.0", "2.7.0", "2.8.0", "2.9.0", "2.12.0", "2.15.0", "2.17.0", "2.21.0", "2.23.0"}},
    {Kind::kQuantize, table_not_written, quantize_version, {"1.14.0", "1.15.0", "2.7.0", "2.21.0", "2.21.0", "2.21.0"}},
    {Kind::kDequantize,
     table_not_written,
     dequantize_version,
     {"1.13.1", "1.14.0", "1.15.0", "2.2.0", "2.7.0", "2.18.0", "2.21.0", "2.22.0", "2.23.0"}},
    {Kind::kAdd, add_options, add_version, {"1.5.0", "1.14.0", "2.4.0", "2.6.0", "2.13.0", "2.23.0"}},
    {Kind::kSub, sub_options, sub_version, {"1.6.0", "1.14.0", "2.3.0", "2.4.0", "2.4.0"}},
    {Kind::kMul,
     mul_options,
     mul_version,
     {"1.5.0", "1.14.0", "1.15.0", "2.3.0", "2.6.0", "2.11.0", "2.13.0", "2.23.0"}},
    {Kind::kDiv, div_options, div_version, {"1.6.0", "2.3.0"}},
    {Kind::kFloorDiv, no_table, by_type({{kI16, 3}, {kI8, 3}, {kF32, 2}}), {"1.14.0", "1.14.0", "2.13.0"}},
    {Kind::kFloorMod, no_table, by_type({{kI16, 2}, {kI8, 2}}), {"1.13.0", "2.13.0"}},
    {Kind::kMaximum, no_table, extreme_version, {"1.14.0", "1.14.0", "2.3.0", "2.3.0"}},
    {Kind::kMinimum, no_table, extreme_version, {"1.14.0", "1.14.0", "2.3.0", "2.3.0"}},
    {Kind::kPow, no_table, kOneVersion, {"1.10.0"}},
    {Kind::kAtan2, no_table, kOneVersion, {"2.10.0"}},
    {Kind::kEqual, no_table, by_type({{kI16, 5}, {kI8, 2}}), {"1.14.0", "1.14.0", "2.3.0", "2.13.0", "2.21.0"}},
    {Kind::kNotEqual, no_table, by_type({{kI16, 4}, {kI8, 2}}), {"1.14.0", "1.14.0", "2.3.0", "2.21.0"}},
    {Kind::kLess, no_table, by_type({{kI16, 3}, {kI8, 2}}), {"1.14.0", "1.14.0", "2.13.0"}},
    {Kind::kLessEqual, no_table, by_type({{kI8, 2}}), {"1.14.0", "1.14.0"}},
    {Kind::kGreater, no_table, by_type({{kI8, 2}}), {"1.14.0", "1.14.0"}},
    {Kind::kGreaterEqual, no_table, by_type({{kI16, 3}, {kI8, 2}}), {"1.14.0", "1.14.0", "2.13.0"}},
    {Kind::kLogicalAnd, no_table, kOneVersion, {"1.11.0"}},
    {Kind::kLogicalOr, no_table, kOneVersion, {"1.11.0"}},
    {Kind::kBitwiseXor, no_table, kOneVersion, {"2.13.0"}},
    {Kind::kRightShift, no_table, kOneVersion, {"2.13.0"}},
    {Kind::kStablehloAnd, no_table, kOneVersion, {"2.17.0"}},
    {Kind::kStablehloShiftLeft, no_table, kOneVersion, {"2.17.0"}},
    {Kind::kSelectV2, no_table, by_type({{kU32, 2}}), {"2.2.0", "2.12.0"}},
};

}  // namespace

std::span<const BuiltinForm> elementwise_forms() { return kElementwiseForms; }

}  // namespace lowtide::emit
