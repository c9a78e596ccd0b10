// SPDX-License-Identifier: Apache-2.0
// What stands as CUSTOM in the core graph while a model is on its way to ONNX (raised_operator.h).
#include "layout/raise/blocks_of_weights.h"
#include "layout/raise/families.h"
#include "layout/raise/raising.h"

namespace lowtide::layout {
namespace {

void raise_custom(Raising& r) {
  static_cast<const RaisedOperator&>(*r.options<core::CustomOptions>().described).raise(r);
}

constexpr RaiseRow kCustomOps[] = {
    {Kind::kCustom, 1, RaiseRow::kAnyNumber, raise_custom},
};

}  // namespace

void raise_blocks_of_weights(Raising& r) {
  const auto& blocks = static_cast<const BlockDequantize&>(*r.options<core::CustomOptions>().described);
  r.give_stored(r.node("DequantizeLinear", {r.stored(0), r.stored(1)},
                       {attribute("axis", int64_t{1}), attribute("block_size", blocks.block_size)}));
}

std::span<const RaiseRow> raised_custom_ops() { return kCustomOps; }

}  // namespace lowtide::layout
