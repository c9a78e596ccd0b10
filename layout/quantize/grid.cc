// SPDX-License-Identifier: Apache-2.0
#include "layout/quantize/grid.h"

#include <utility>

#include "layout/core/builtin.h"
#include "layout/core/kernel_limits.h"
#include "layout/core/merge_axes.h"

namespace lowtide::layout {
namespace {

constexpr int64_t kShift = 128;
// Integer kernels were measured with operands that broadcast up to this rank.
constexpr int kBroadcastRank = 4;

bool is_quantize(const Op& op) { return op.kind == Kind::kQuantize; }

}  // namespace

std::optional<TensorGrid> grid_of(const core::Value& value) {
  if (!value.quantization || value.quantization->scale.size() != 1) return std::nullopt;
  const int bits = stream::bits(value.dtype);
  if (bits != 8 && bits != 16) return std::nullopt;
  const core::Quantization& q = *value.quantization;
  return TensorGrid{value.dtype, q.scale[0], q.zero_point.empty() ? 0 : q.zero_point[0]};
}

bool has_kernels(const TensorGrid& grid) {
  return grid.dtype != DType::kUint16 && (grid.dtype != DType::kInt16 || grid.zero == 0);
}

core::Quantization quantization_of(const TensorGrid& grid) { return {{grid.scale}, {grid.zero}, 0}; }

std::optional<TensorGrid> shifted(const TensorGrid& grid, DType to) {
  if (grid.dtype == to) return grid;
  if (grid.dtype == DType::kUint8 && to == DType::kInt8) return TensorGrid{to, grid.scale, grid.zero - kShift};
  if (grid.dtype == DType::kInt8 && to == DType::kUint8) return TensorGrid{to, grid.scale, grid.zero + kShift};
  return std::nullopt;
}

bool is_shift(const TensorGrid& from, const TensorGrid& to) {
  return from.dtype != to.dtype && shifted(from, to.dtype) == to;
}

ValueId before_shifts(const Rewriter& rewriter, ValueId quantized) {
  for (;;) {
    const OpId producer = rewriter.producer(quantized);
    if (producer < 0) return quantized;
    const Op& op = rewriter.graph.ops[static_cast<size_t>(producer)];
    if (!is_quantize(op)) return quantized;
    const auto from = grid_of(rewriter.value(op.inputs[0])), to = grid_of(rewriter.value(quantized));
    if (!from || !to || !is_shift(*from, *to)) return quantized;
    quantized = op.inputs[0];
  }
}

ValueId dequantized(const Rewriter& rewriter, ValueId floats) {
  const OpId producer = rewriter.producer(floats);
  if (producer < 0) return core::kAbsent;
  const Op& op = rewriter.graph.ops[static_cast<size_t>(producer)];
  if (op.kind != Kind::kDequantize || !grid_of(rewriter.value(op.inputs[0]))) return core::kAbsent;
  return before_shifts(rewriter, op.inputs[0]);
}

ValueId push_on_grid(Rewriter& rewriter, Op op, const TensorGrid& grid, const core::Shape& shape) {
  const ValueId made = rewriter.graph.add_value(grid.dtype, shape);
  rewriter.graph.at(made).quantization = quantization_of(grid);
  op.outputs = {made};
  rewriter.graph.add_op(std::move(op));
  rewriter.note_new_ops();
  return made;
}

ValueId quantized_to(Rewriter& rewriter, ValueId value, const TensorGrid& grid) {
  for (OpId user : rewriter.users(value)) {
    const Op& op = rewriter.op(user);
    if (is_quantize(op) && grid_of(rewriter.value(op.outputs[0])) == grid) return op.outputs[0];
  }
  const core::Shape shape = rewriter.value(value).shape;
  Op op{.kind = Kind::kQuantize, .inputs = {value}, .options = core::IndexOptions{grid.dtype}};
  op.origin = rewriter.b.origin;
  return push_on_grid(rewriter, std::move(op), grid, shape);
}

ValueId constant_on_grid(Rewriter& rewriter, ValueId floats, const TensorGrid& grid) {
  const core::Value& value = rewriter.value(floats);
  std::string name = value.name;
  const ValueId made = rewriter.graph.add_constant(
      stream::recipe::quantize(value.constant, grid.dtype, {grid.scale}, {grid.zero}, -1), std::move(name));
  rewriter.graph.at(made).quantization = quantization_of(grid);
  rewriter.note_new_ops();
  return made;
}

ValueId as_type(Rewriter& rewriter, ValueId quantized, DType to) {
  const ValueId root = before_shifts(rewriter, quantized);
  if (rewriter.value(root).dtype == to) return root;
  if (rewriter.value(quantized).dtype == to) return quantized;
  return quantized_to(rewriter, root, *shifted(*grid_of(rewriter.value(root)), to));
}

bool integer_kernel_takes(const Graph& graph, const Op& op, DType dtype, bool one_scale) {
  const core::KernelLimits* limits = core::kernel_limits(op.kind);
  if (!limits) return false;
  const uint32_t bit = uint32_t{1} << static_cast<unsigned>(dtype);
  // Ops that only move elements and were not measured with scales do to integers what they do to plain numbers.
  const bool is_measured = (limits->quantized | limits->one_scale) != 0;
  const bool moves = core::builtin(op.kind).numbers == core::Numbers::kMoved;
  const uint32_t takes = is_measured ? (one_scale ? limits->one_scale : limits->quantized) : moves ? limits->dtypes : 0;
  if ((takes & bit) == 0) return false;
  const int rank = core::kernel_rank(graph, op);
  if (rank < limits->min_rank || rank > limits->max_rank) return false;
  if (!core::builtin(op.kind).broadcasts) return true;
  const core::Shape& full = graph.at(op.outputs[0]).shape;
  for (const ValueId in : op.inputs)
    if (graph.at(in).shape != full && static_cast<int>(full.size()) > kBroadcastRank) return false;
  return true;
}

}  // namespace lowtide::layout
