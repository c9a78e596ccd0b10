// SPDX-License-Identifier: Apache-2.0
// CONCATENATION, SPLIT, SPLIT_V.
#include "emit/builtins/row.h"

namespace lowtide::emit {
namespace {

// ---- options ----

OptionsTable concat_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const auto& o = options_of<core::ConcatOptions>(op);
  return table_of(tflite::BuiltinOptions::ConcatenationOptions,
                  tflite::CreateConcatenationOptions(fbb, o.axis, schema(o.activation)));
}

OptionsTable split_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const auto& o = options_of<core::SplitOptions>(op);
  return table_of(tflite::BuiltinOptions::SplitOptions, tflite::CreateSplitOptions(fbb, o.num));
}

OptionsTable split_v_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const auto& o = options_of<core::SplitOptions>(op);
  return table_of(tflite::BuiltinOptions::SplitVOptions, tflite::CreateSplitVOptions(fbb, o.num));
}

constexpr BuiltinForm kConcatForms[] = {
    {Kind::kConcatenation,
     concat_options,
     by_type({{kF16, 6}, {kI4, 5}, {kU32, 4}, {kI16, 3}, {kI8, 2}}),
     {"1.5.0", "1.14.0", "2.3.0", "2.14.0", "2.21.0", "2.23.0", "2.23.0"}},
    {Kind::kSplit,
     split_options,
     by_type_of(1, {{kI16, 4}, {kI32, 3}, {kI8, 2}}),
     {"1.5.0", "1.14.0", "1.14.0", "2.3.0", "2.23.0"}},
    {Kind::kSplitV, split_v_options, by_type({{kI8, 2}}), {"1.13.1", "2.3.0", "2.23.0"}},
};

}  // namespace

std::span<const BuiltinForm> concat_forms() { return kConcatForms; }

}  // namespace lowtide::emit
