// SPDX-License-Identifier: Apache-2.0
// Which operands may be stored in eight or four bits, and how the kernel then reads them. Measured with ai-edge-litert
// 2.3.0; docs/decisions/smaller-weights.md has the figures behind each choice.
//
// The trap: a kernel that reads integer weights ("hybrid") quantizes its data too, at each run. Where that is slower
// than floats, or where older runtimes would use the scales wrongly without an error, the operand goes through a
// DEQUANTIZE.
#pragma once

#include <optional>

#include "layout/core/graph.h"

namespace lowtide::layout {

enum class WeightReading {
  kHybrid,      // the kernel reads the integers
  kDequantize,  // the kernel reads floats, from a DEQUANTIZE
  kLookup,      // a GATHER of rows becomes an EMBEDDING_LOOKUP, which scales the rows that it picks
};

struct WeightSlot {
  WeightReading reading;
  int axis;        // the channels: one scale for each
  bool four_bits;  // may be i4 instead of i8
};

// nullopt: the operand is not a weight, or has a form that no kernel computes correctly.
std::optional<WeightSlot> weight_slot(const core::Graph& graph, const core::Op& op, size_t input);

// Whether the op is a GATHER that picks rightly from a table stored in this type.
bool gathers_stored(const core::Graph& graph, const core::Op& op, core::DType dtype);

}  // namespace lowtide::layout
