// SPDX-License-Identifier: Apache-2.0
#include "layout/quantize/tables.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "layout/core/builtin.h"
#include "layout/quantize/element_function.h"

namespace lowtide::layout {
namespace {

namespace recipe = stream::recipe;

constexpr int64_t kEntries = 256;

bool has_8_bits(const TensorGrid& grid) { return stream::bits(grid.dtype) == 8; }

// The positions in the table of a value in u8. GATHER takes no positions of 8 bits.
ValueId positions(Rewriter& rewriter, ValueId quantized) {
  for (const OpId user : rewriter.users(quantized)) {
    const Op& op = rewriter.op(user);
    if (op.kind == Kind::kCast && rewriter.value(op.outputs[0]).dtype == DType::kInt32) return op.outputs[0];
  }
  const core::Shape shape = rewriter.value(quantized).shape;
  const ValueId made = rewriter.graph.add_value(DType::kInt32, shape);
  rewriter.graph.add_op({.kind = Kind::kCast,
                         .inputs = {quantized},
                         .outputs = {made},
                         .options = core::IndexOptions{DType::kInt32},
                         .origin = rewriter.b.origin});
  rewriter.note_new_ops();
  return made;
}

// f32(q - zero) * scale for the 256 integers of u8.
stream::RecipeRef numbers_of(const TensorGrid& grid) {
  const TensorGrid unsigned_grid = *shifted(grid, DType::kUint8);
  std::vector<int64_t> all(kEntries);
  std::iota(all.begin(), all.end(), int64_t{0});
  return recipe::dequantize(recipe::ints(all, DType::kUint8, {kEntries}), {unsigned_grid.scale}, {unsigned_grid.zero},
                            -1);
}

// Whether no kernel, with what moves through ops that choose, computes the function.
bool lacks_a_kernel(Rewriter& rewriter, const ElementFunction& function) {
  size_t computing = 0;
  for (const OpId id : function.ops) {
    const core::Integers integers = core::builtin(rewriter.op(id).kind).integers;
    if (integers == core::Integers::kNone) return true;
    computing += integers != core::Integers::kChosen;
  }
  return computing > 1;
}

// `always`: also what a kernel may compute.
bool replace_by_table(Rewriter& rewriter, OpId id, bool always) {
  const ValueId floats = rewriter.op(id).inputs[0];
  if (rewriter.value(floats).dtype != DType::kFloat32) return false;
  const auto to = grid_of(rewriter.value(rewriter.op(id).outputs[0]));
  if (!to || !has_8_bits(*to)) return false;
  const std::vector<OpId> users = rewriter.users(floats);
  // Where the floats are needed too, they are computed anyway.
  if (static_cast<int>(users.size()) != rewriter.uses(floats) ||
      std::any_of(users.begin(), users.end(), [&](OpId user) { return rewriter.op(user).kind != Kind::kQuantize; }))
    return false;
  const auto function =
      element_function(rewriter.graph, floats, [&](ValueId value) { return dequantized(rewriter, value); });
  if (!function || !(always || lacks_a_kernel(rewriter, *function))) return false;
  const TensorGrid from = *grid_of(rewriter.value(function->root));
  if (!has_8_bits(from)) return false;

  rewriter.b.origin = rewriter.op(function->ops.back()).origin;
  const stream::RecipeRef results = results_of(rewriter.graph, *function, numbers_of(from));
  const ValueId table = rewriter.graph.add_constant(recipe::quantize(results, to->dtype, {to->scale}, {to->zero}, -1));
  rewriter.graph.at(table).quantization = quantization_of(*to);
  rewriter.note_new_ops();
  const ValueId indices = positions(rewriter, as_type(rewriter, function->root, DType::kUint8));
  Op gather{.kind = Kind::kGather, .inputs = {table, indices}, .outputs = {}, .options = core::GatherOptions{}};
  gather.origin = rewriter.b.origin;
  const core::Shape shape = rewriter.value(floats).shape;
  const ValueId made = push_on_grid(rewriter, std::move(gather), *to, shape);
  for (const OpId user : users) {
    const ValueId wanted = rewriter.op(user).outputs[0];
    const auto grid = grid_of(rewriter.value(wanted));
    if (!grid || shifted(*grid, to->dtype) != to) continue;  // gets a table of its own
    rewriter.replace(wanted, as_type(rewriter, made, grid->dtype));
  }
  return true;
}

}  // namespace

bool function_without_kernel_by_table(Rewriter& rewriter, OpId id) { return replace_by_table(rewriter, id, false); }
bool function_by_table(Rewriter& rewriter, OpId id) { return replace_by_table(rewriter, id, true); }

bool is_table(const Graph& graph, const Op& op) {
  if (op.kind != Kind::kGather) return false;
  const core::Value& table = graph.at(op.inputs[0]);
  if (!table.is_constant() || !table.quantization || table.shape != core::Shape{kEntries}) return false;
  const OpId producer = graph.at(op.inputs[1]).producer;
  if (producer < 0 || graph.ops[static_cast<size_t>(producer)].kind != Kind::kCast) return false;
  return graph.at(graph.ops[static_cast<size_t>(producer)].inputs[0]).dtype == DType::kUint8;
}

}  // namespace lowtide::layout
