// SPDX-License-Identifier: Apache-2.0
// SLICE, STRIDED_SLICE, DYNAMIC_UPDATE_SLICE, REVERSE_V2, REVERSE_SEQUENCE.
#include "emit/builtins/row.h"

namespace lowtide::emit {
namespace {

// ---- options ----

OptionsTable strided_slice_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const auto& o = options_of<core::StridedSliceOptions>(op);
  return table_of(tflite::BuiltinOptions::StridedSliceOptions,
                  tflite::CreateStridedSliceOptions(fbb, o.begin_mask, o.end_mask, 0, 0, o.shrink_axis_mask));
}

OptionsTable reverse_sequence_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const auto& o = options_of<core::ReverseSequenceOptions>(op);
  return table_of(tflite::BuiltinOptions::ReverseSequenceOptions,
                  tflite::CreateReverseSequenceOptions(fbb, o.sequence_axis, o.batch_axis));
}

// ---- versions ----

int slice_version(const OperandTypes& s) {
  int by_dtype = by_type({{kF16, 8}, {kI4, 7}, {kU32, 6}})(s);
  if (by_dtype > 1) return by_dtype;
  if (s.rank() > 4) return 5;
  return by_type({{kI16, 4}, {kI8, 2}})(s);
}

int strided_slice_version(const OperandTypes& s) {
  if (s.in(0) == kU32) return 7;
  if (s.rank() > 4) return 4;
  return by_type({{kBool, 3}, {kI8, 2}})(s);
}

int dynamic_update_slice_version(const OperandTypes& s) {
  const int by_data = s.in(0) == kBF16 ? 6 : s.in(0) == kI4 ? 5 : s.in(0) == kI16 ? 4 : s.in(0) == kF16 ? 3 : 1;
  return s.in(2) == kI64 ? std::max(2, by_data) : by_data;
}

constexpr BuiltinForm kSliceForms[] = {
    {Kind::kSlice,
     no_table,
     slice_version,
     {"1.14.0", "1.14.0", "1.14.0", "2.4.0", "2.5.0", "2.14.0", "2.21.0", "2.23.0"}},
    {Kind::kStridedSlice,
     strided_slice_options,
     strided_slice_version,
     {"1.6.0", "1.14.0", "2.1.0", "2.2.0", "2.5.0", "2.6.0", "2.14.0", "2.14.0"}},
    {Kind::kDynamicUpdateSlice,
     no_table,
     dynamic_update_slice_version,
     {"2.9.0", "2.17.0", "2.19.0", "2.20.0", "2.21.0", "2.22.0"}},
    {Kind::kReverseV2, no_table, by_type({{kI8, 3}, {kBool, 2}}), {"1.14.0", "2.2.0", "2.5.0", "2.23.0"}},
    {Kind::kReverseSequence, reverse_sequence_options, kOneVersion, {"1.14.0"}},
};

}  // namespace

std::span<const BuiltinForm> slice_forms() { return kSliceForms; }

}  // namespace lowtide::emit
