// SPDX-License-Identifier: Apache-2.0
// A row of the table of builtins that have a form in ONNX (table.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "layout/core/graph.h"

namespace lowtide::layout {

class Raising;

// What ONNX Runtime has kernels for, of the operator's nodes: of its first data input.
enum class Takes : uint8_t {
  kAny,
  kNumbers,  // integers too
  kReals,    // floats, and integers that have a scale
};

struct RaiseRow {
  static constexpr size_t kAnyNumber = std::numeric_limits<size_t>::max();
  core::Kind kind;
  size_t least_inputs, most_inputs;  // the first `least_inputs` must be there
  void (*raise)(Raising&);
  Takes takes = Takes::kAny;
};

}  // namespace lowtide::layout
