// SPDX-License-Identifier: Apache-2.0
// OptionalHasElement and OptionalGetElement of a tensor, or of nothing at all: both are known at conversion. Values of
// the type optional itself have no form in TFLite, and are refused where the graph is read.
#include "layout/lower/lowering.h"

namespace lowtide::layout {

void lower_optional_has_element(Lowering& lo) { lo.output(0, lo.b.filled(lo.has_input(0) ? 1 : 0, DType::kBool, {})); }

void lower_optional_get_element(Lowering& lo) { lo.output(0, lo.input(0)); }

}  // namespace lowtide::layout
