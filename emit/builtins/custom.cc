// SPDX-License-Identifier: Apache-2.0
// CUSTOM. Its name, its version and its options are not in the schema's union (emit/header.cc writes them).
#include "emit/builtins/row.h"

namespace lowtide::emit {
namespace {

// The options are bytes beside the table of builtins.
OptionsTable no_builtin_options(FlatBufferBuilder&, const Graph&, const Op&) { return {}; }

constexpr BuiltinForm kCustomForms[] = {
    {Kind::kCustom, no_builtin_options, kOneVersion, {"1.5.0"}},
};

}  // namespace

std::span<const BuiltinForm> custom_forms() { return kCustomForms; }

}  // namespace lowtide::emit
