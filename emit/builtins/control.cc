// SPDX-License-Identifier: Apache-2.0
// IF, WHILE.
#include "emit/builtins/row.h"

namespace lowtide::emit {
namespace {

// ---- options ----

OptionsTable if_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const auto& o = options_of<core::SubgraphOptions>(op);
  return table_of(tflite::BuiltinOptions::IfOptions, tflite::CreateIfOptions(fbb, o.first, o.second));
}

OptionsTable while_options(FlatBufferBuilder& fbb, const Graph&, const Op& op) {
  const auto& o = options_of<core::SubgraphOptions>(op);
  return table_of(tflite::BuiltinOptions::WhileOptions, tflite::CreateWhileOptions(fbb, o.first, o.second));
}

constexpr BuiltinForm kControlForms[] = {
    {Kind::kIf, if_options, kOneVersion, {"1.15.0"}},
    {Kind::kWhile, while_options, kOneVersion, {"1.15.0"}},
};

}  // namespace

std::span<const BuiltinForm> control_forms() { return kControlForms; }

}  // namespace lowtide::emit
