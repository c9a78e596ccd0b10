// SPDX-License-Identifier: Apache-2.0
// What an op's operands are to its kernel: data, whose type the kernel is chosen by, or indices (axes, shapes, counts).
#pragma once

#include <cstdint>

#include "layout/core/graph.h"

namespace lowtide::layout {

// Bit i: operand i.
struct Roles {
  uint32_t data_in = ~0U;
  uint32_t index_in = 0;
  uint32_t data_out = ~0U;
  bool wide_indices = true;  // the kernel takes i64 indices beside i32

  bool is_data_input(size_t i) const { return i >= 32 ? data_in == ~0U : (data_in >> i & 1U) != 0; }
  bool is_index_input(size_t i) const { return i < 32 && (index_in >> i & 1U) != 0; }
  bool is_data_output(size_t i) const { return i >= 32 ? data_out == ~0U : (data_out >> i & 1U) != 0; }
};
Roles roles(core::Kind kind);

// Ops that only move elements: any type of the same width, or wider, does as well.
bool only_moves(core::Kind kind);

}  // namespace lowtide::layout
