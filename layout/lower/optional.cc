// SPDX-License-Identifier: Apache-2.0
// OptionalHasElement and OptionalGetElement of a tensor or an absent input: both are known at conversion. TFLite has no
// optional type; inputs and outputs of that type are refused by lower_graph.
#include "layout/lower/lowering.h"

namespace lowtide::layout {

void lower_optional_has_element(Lowering& lo) { lo.output(0, lo.b.filled(lo.has_input(0) ? 1 : 0, DType::kBool, {})); }

void lower_optional_get_element(Lowering& lo) { lo.output(0, lo.input(0)); }

}  // namespace lowtide::layout
