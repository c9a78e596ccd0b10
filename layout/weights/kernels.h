// SPDX-License-Identifier: Apache-2.0
// Which operand of which kernel may be stored in eight or four bits, and how the kernel then reads it. Measured with
// ai-edge-litert 2.3.0; docs/decisions/smaller-weights.md has the figures behind each choice.
//
// The trap: a kernel that takes small weights ("hybrid") quantizes its data too, as it runs. Where that is slower than
// floats, or where older runtimes would take the scales wrongly and say nothing, the operand goes through a DEQUANTIZE.
#pragma once

#include <optional>

#include "layout/core/graph.h"

namespace lowtide::layout {

enum class WeightReading {
  kHybrid,      // the kernel takes them as they are
  kDequantize,  // the kernel takes floats, from a DEQUANTIZE
  kLookup,      // a GATHER of rows becomes an EMBEDDING_LOOKUP, which scales the rows it picks
};

struct WeightSlot {
  WeightReading reading;
  int axis;        // the channels: one scale each
  bool four_bits;  // may be i4 instead of i8
};

// nullopt: an operand that is no weight, or one of a form that no kernel gets right.
std::optional<WeightSlot> weight_slot(const core::Graph& graph, const core::Op& op, size_t input);

}  // namespace lowtide::layout
