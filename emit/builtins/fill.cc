// SPDX-License-Identifier: Apache-2.0
// FILL, RANGE, TILE, BROADCAST_TO, BROADCAST_ARGS.
#include "emit/builtins/row.h"

namespace lowtide::emit {
namespace {

constexpr BuiltinForm kFillForms[] = {
    {Kind::kFill,
     no_table,
     by_type_of(1, {{kF16, 4}, {kI16, 3}, {kI8, 3}, {kBool, 2}}),
     {"1.13.0", "2.3.0", "2.5.0", "2.12.0", "2.23.0"}},
    {Kind::kRange, no_table, by_type({{kI64, 2}}), {"1.13.0", "2.14.0"}},
    {Kind::kTile, no_table, by_type({{kI8, 3}}), {"1.10.1", "2.2.0", "2.8.0"}},
    {Kind::kBroadcastTo, no_table, by_type({{kI8, 3}, {kI16, 3}}, 2), {kNotOnRecord, "2.5.0", "2.5.0", "2.23.0"}},
    {Kind::kBroadcastArgs, no_table, kOneVersion, {"2.6.0"}},
};

}  // namespace

std::span<const BuiltinForm> fill_forms() { return kFillForms; }

}  // namespace lowtide::emit
