// SPDX-License-Identifier: Apache-2.0
// Ops that work along axes: reductions, ARG_MAX, CUMSUM, SOFTMAX, TOPK_V2.
#include "emit/builtins/row.h"

namespace lowtide::emit {
namespace {

// ---- options ----

OptionsTable reduce_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const auto& o = options_of<core::ReduceOptions>(op);
  return table_of(tflite::BuiltinOptions::ReducerOptions, tflite::CreateReducerOptions(fbb, o.keep_dims));
}

OptionsTable arg_max_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const auto& o = options_of<core::IndexOptions>(op);
  return table_of(tflite::BuiltinOptions::ArgMaxOptions, tflite::CreateArgMaxOptions(fbb, schema(o.dtype)));
}

OptionsTable arg_min_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const auto& o = options_of<core::IndexOptions>(op);
  return table_of(tflite::BuiltinOptions::ArgMinOptions, tflite::CreateArgMinOptions(fbb, schema(o.dtype)));
}

OptionsTable cumsum_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const auto& o = options_of<core::CumsumOptions>(op);
  return table_of(tflite::BuiltinOptions::CumsumOptions, tflite::CreateCumsumOptions(fbb, o.exclusive, o.reverse));
}

OptionsTable softmax_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const auto& o = options_of<core::SoftmaxOptions>(op);
  return table_of(tflite::BuiltinOptions::SoftmaxOptions, tflite::CreateSoftmaxOptions(fbb, o.beta));
}

// ---- versions ----

int top_k_version(const OperandTypes& s) {
  if (s.in(0) == kI16 || s.in(1) == kI16 || s.out(1) == kI16) return 3;
  return s.in(0) == kI8 ? 2 : 1;
}

constexpr BuiltinForm kReduceForms[] = {
    {Kind::kSum, reduce_options, by_type({{kI8, 2}}), {"1.10.0", "1.15.0"}},
    {Kind::kMean, reduce_options, by_type({{kI16, 3}, {kI8, 2}}), {"1.6.0", "1.14.0", "2.4.0"}},
    {Kind::kReduceMax, reduce_options, by_type({{kI16, 3}, {kI8, 2}}), {"1.11.0", "1.14.0", "2.5.0"}},
    {Kind::kReduceMin, reduce_options, by_type({{kI16, 3}, {kI8, 2}}), {"1.11.0", "1.14.0", "2.5.0"}},
    {Kind::kReduceProd, reduce_options, by_type({{kI16, 2}, {kI8, 2}}), {"1.11.0", "2.6.0"}},
    {Kind::kReduceAny, reduce_options, kOneVersion, {"1.11.0"}},
    {Kind::kReduceAll, reduce_options, kOneVersion, {"2.6.0"}},
    {Kind::kArgMax, arg_max_options, by_type({{kBool, 3}, {kI8, 2}}), {"1.9.0", "1.14.0", "2.9.0"}},
    {Kind::kArgMin, arg_min_options, by_type({{kBool, 3}, {kI8, 2}}), {"1.9.0", "1.14.0", "2.9.0"}},
    {Kind::kCumsum, cumsum_options, kOneVersion, {"2.4.0"}},
    {Kind::kSoftmax,
     softmax_options,
     by_type({{kF16, 4}, {kI16, 3}, {kI8, 2}}),
     {"1.5.0", "1.14.0", "2.3.0", "2.23.0"}},
    {Kind::kLogSoftmax, no_table, by_type({{kI8, 2}}), {"1.14.0", "1.14.0"}},
    {Kind::kTopkV2, no_table, top_k_version, {"1.7.0", "1.14.0", "2.13.0"}},
};

}  // namespace

std::span<const BuiltinForm> reduce_forms() { return kReduceForms; }

}  // namespace lowtide::emit
