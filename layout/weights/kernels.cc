// SPDX-License-Identifier: Apache-2.0
#include "layout/weights/kernels.h"

#include <algorithm>

#include "layout/core/builtin.h"

namespace lowtide::layout {
namespace {

using core::DType;
using core::Kind;

// Four-bit rows that start in the middle of a byte are read wrongly by EMBEDDING_LOOKUP and GATHER, and refused by
// XNNPACK. A row is what the axes behind `axis` hold.
bool even_rows(const core::Value& table, size_t axis = 0) {
  return std::any_of(table.shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, table.shape.end(),
                     [](core::Dim extent) { return extent % 2 == 0; });
}

// Kernels divide by the number of rows of their data before they quantize it.
bool gives_nothing(const core::Graph& graph, const core::Op& op) {
  const core::Shape& shape = graph.at(op.outputs[0]).shape;
  return std::find(shape.begin(), shape.end(), 0) != shape.end();
}

std::optional<WeightSlot> table_of_rows(const core::Graph& graph, const core::Op& op) {
  const auto& options = std::get<core::GatherOptions>(op.options);
  const core::Value& table = graph.at(op.inputs[0]);
  if (options.axis != 0 || options.batch_dims != 0 || table.rank() < 2) return std::nullopt;
  return WeightSlot{WeightReading::kLookup, 0, even_rows(table)};
}

}  // namespace

bool gathers_stored(const core::Graph& graph, const core::Op& op, DType dtype) {
  if (op.kind != Kind::kGather) return false;
  const core::Value& table = graph.at(op.inputs[0]);
  const int axis = std::get<core::GatherOptions>(op.options).axis;
  return stream::bits(dtype) >= 8 || even_rows(table, static_cast<size_t>(axis < 0 ? axis + table.rank() : axis));
}

std::optional<WeightSlot> weight_slot(const core::Graph& graph, const core::Op& op, size_t input) {
  if (op.kind == Kind::kGather && input == 0) return table_of_rows(graph, op);
  const int rank = graph.at(op.inputs[input]).rank();
  if (op.kind == Kind::kBatchMatmul) {
    const auto& options = std::get<core::BatchMatmulOptions>(op.options);
    const bool swapped = input == 0 ? !options.adj_x : options.adj_y;
    return WeightSlot{WeightReading::kDequantize, rank - (swapped ? 2 : 1), false};
  }
  const core::Weights* where = core::weights_of(op.kind);
  if (!where || input != where->weights || gives_nothing(graph, op)) return std::nullopt;
  if (where->small == core::SmallWeights::kDequantized)
    return WeightSlot{WeightReading::kDequantize, where->output_axis, false};
  const bool four_bits = where->small == core::SmallWeights::kEightAndFour && even_rows(graph.at(op.inputs[input]));
  return WeightSlot{WeightReading::kHybrid, where->output_axis, four_bits};
}

}  // namespace lowtide::layout
