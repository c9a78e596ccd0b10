// SPDX-License-Identifier: Apache-2.0
// PAD, PADV2, MIRROR_PAD.
#include "emit/builtins/row.h"

namespace lowtide::emit {
namespace {

// ---- options ----

OptionsTable mirror_pad_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const auto mode = options_of<core::MirrorPadOptions>(op).symmetric ? tflite::MirrorPadMode::SYMMETRIC
                                                                     : tflite::MirrorPadMode::REFLECT;
  return table_of(tflite::BuiltinOptions::MirrorPadOptions, tflite::CreateMirrorPadOptions(fbb, mode));
}

// ---- versions ----

int pad_version(const OperandTypes& s) {
  if (s.in(0) == kBool) return 5;
  if (s.rank() > 4) return 4;
  return by_type({{kI16, 3}, {kI8, 2}})(s);
}

constexpr BuiltinForm kPadForms[] = {
    {Kind::kPad, no_table, pad_version, {"1.5.0", "1.14.0", "2.4.0", "2.6.0", "2.20.0", "2.23.0"}},
    {Kind::kPadv2, no_table, pad_version, {"1.9.0", "1.14.0", "2.4.0", "2.6.0", "2.20.0", "2.23.0"}},
    {Kind::kMirrorPad, mirror_pad_options, by_type({{kI16, 3}, {kI8, 2}}), {"1.13.1", "2.3.0", "2.12.0"}},
};

}  // namespace

std::span<const BuiltinForm> pad_forms() { return kPadForms; }

}  // namespace lowtide::emit
