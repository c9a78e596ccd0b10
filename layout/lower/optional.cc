// SPDX-License-Identifier: Apache-2.0
// Optional, OptionalHasElement and OptionalGetElement: whether there is a tensor or a sequence is known at conversion,
// and an optional that has one is that. TFLite has no optional type; inputs and outputs of that type are refused by
// lower_graph.
#include "layout/lower/lowering.h"

namespace lowtide::layout {

void lower_optional(Lowering& lo) {
  lo.ignore_attr("type");  // of what is absent
  if (!lo.has_input(0)) lo.unsupported("an optional without an element is not supported");
  lo.output(0, lo.input(0));
}

void lower_optional_has_element(Lowering& lo) { lo.output(0, lo.b.filled(lo.has_input(0) ? 1 : 0, DType::kBool, {})); }

void lower_optional_get_element(Lowering& lo) { lo.output(0, lo.input(0)); }

}  // namespace lowtide::layout
