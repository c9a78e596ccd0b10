// SPDX-License-Identifier: Apache-2.0
// The type in which an op is computed when no kernel takes the type of its data.
#pragma once

#include <optional>

#include "layout/core/graph.h"

namespace lowtide::layout {

// How data is converted to the kernel's type and back.
enum class Passage {
  kCast,     // CAST both ways
  kBits,     // BITCAST both ways: u64 as i64
  kOrdered,  // u64 as i64, less 2^63: the order of the numbers is kept
};
struct ComputeType {
  core::DType dtype;
  Passage passage = Passage::kCast;
};

// The type in which an op of this kind on data of this dtype is to be computed: its own where a kernel takes it, else
// the nearest that computes the same, else the nearest narrower one for i64 and f64. nullopt when no kernel can.
std::optional<ComputeType> compute_type(core::Kind kind, core::DType dtype);

// Whether every number of `from` is one of `to`.
bool is_exact(core::DType from, core::DType to);

}  // namespace lowtide::layout
