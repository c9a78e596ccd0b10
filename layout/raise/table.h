// SPDX-License-Identifier: Apache-2.0
// Which builtins have a form in ONNX: one row for each, with the function that writes it. A builtin without a row is
// refused.
#pragma once

#include "layout/raise/row.h"

namespace lowtide::layout {

// Null when there is no row.
const RaiseRow* raise_row(core::Kind kind);

}  // namespace lowtide::layout
