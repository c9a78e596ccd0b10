// SPDX-License-Identifier: Apache-2.0
// A row of the table of builtins that have a form in ONNX (table.h).
#pragma once

#include <cstddef>
#include <limits>

#include "layout/core/graph.h"

namespace lowtide::layout {

class Raising;

struct RaiseRow {
  static constexpr size_t kAnyNumber = std::numeric_limits<size_t>::max();
  core::Kind kind;
  size_t least_inputs, most_inputs;  // the first `least_inputs` must be there
  void (*raise)(Raising&);
};

}  // namespace lowtide::layout
