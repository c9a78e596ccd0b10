// SPDX-License-Identifier: Apache-2.0
// Ops whose result has elements of their data, such as TRANSPOSE, CONCATENATION, MAX_POOL_2D: they give the same on
// integers of one grid, because quantization keeps the order of numbers. So DEQUANTIZE moves behind them and QUANTIZE
// in front of them, both exactly, until they meet an op that computes, or each other.
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "layout/core/builtin.h"
#include "layout/core/integer_constant.h"
#include "layout/quantize/known_ranges.h"
#include "layout/quantize/rules.h"

namespace lowtide::layout {
namespace {

using core::Role;

bool is_data(const Op& op, size_t input) {
  return core::has_input(op, input) && core::builtin(op.kind).inputs[input] == Role::kData;
}

// Whether the limits of a fused activation are on every grid: 0 is, 6 may be between two steps.
bool is_limited_on_the_grid(const Op& op) {
  if (core::builtin(op.kind).activation == core::kNoActivation) return true;
  const core::Activation activation = core::fused_activation(op);
  return activation == core::Activation::kNone || activation == core::Activation::kRelu;
}

// Whether each element of a constant is on the grid, to the last bit.
bool is_on_grid(Rewriter& rewriter, ValueId constant, const TensorGrid& grid) {
  if (const auto integers = core::integer_constant(rewriter.value(constant).constant, rewriter.graph.budget)) {
    const DType dtype = integers->integers->dtype;
    if (dtype == grid.dtype && integers->axis < 0 && integers->scale[0] == grid.scale && integers->zero[0] == grid.zero)
      return true;
  }
  const auto numbers = rewriter.graph.numbers(constant);
  if (!numbers) return false;
  const int bits = stream::bits(grid.dtype);
  const double least = stream::is_signed_int(grid.dtype) ? -std::ldexp(1.0, bits - 1) : 0;
  for (const double number : *numbers) {
    const double level = std::nearbyint(number / grid.scale);
    const double stored = level + static_cast<double>(grid.zero);
    if (!(stored >= least && stored < least + std::ldexp(1.0, bits))) return false;
    if (static_cast<float>(level) * grid.scale != static_cast<float>(number)) return false;
  }
  return true;
}

// The types to try: the one that the data has, and the other one of 8 bits.
std::vector<DType> types_for(DType dtype) {
  if (dtype == DType::kInt8) return {dtype, DType::kUint8};
  if (dtype == DType::kUint8) return {dtype, DType::kInt8};
  return {dtype};
}

// The op on integers. Data outputs are made anew on `grid`; `finish(made)` gives what replaces the float output.
template <typename Finish>
void rebuild(Rewriter& rewriter, const Op& old, Op op, const TensorGrid& grid, Finish finish) {
  const core::Builtin& row = core::builtin(old.kind);
  std::vector<std::pair<ValueId, ValueId>> made;
  for (size_t i = 0; i < old.outputs.size(); ++i) {
    const core::Value value = rewriter.value(old.outputs[i]);
    const bool data = row.outputs[i] == Role::kData;
    const ValueId id = rewriter.graph.add_value(data ? grid.dtype : value.dtype, value.shape);
    if (data) rewriter.graph.at(id).quantization = quantization_of(grid);
    if (!data) rewriter.graph.at(id).contents = value.contents;
    op.outputs[i] = id;
    made.emplace_back(old.outputs[i], id);
  }
  rewriter.graph.add_op(std::move(op));
  rewriter.note_new_ops();
  for (size_t i = 0; i < made.size(); ++i) {
    const auto [from, to] = made[i];
    rewriter.replace(from, row.outputs[i] == Role::kData ? finish(to, from) : to);
  }
}

ValueId push_one(Rewriter& rewriter, Kind kind, ValueId in, DType dtype, const core::Shape& shape) {
  const ValueId out = rewriter.graph.add_value(dtype, shape);
  rewriter.graph.add_op({.kind = kind,
                         .inputs = {in},
                         .outputs = {out},
                         .options = core::IndexOptions{dtype},
                         .origin = rewriter.b.origin});
  rewriter.note_new_ops();
  return out;
}

}  // namespace

bool choose_integers(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  if (op.stays_float || !chooses(op) || !is_limited_on_the_grid(op)) return false;
  rewriter.b.origin = op.origin;
  std::optional<TensorGrid> grid;
  std::vector<ValueId> roots(op.inputs.size(), core::kAbsent);
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!is_data(op, i)) continue;
    roots[i] = dequantized(rewriter, op.inputs[i]);
    if (roots[i] == core::kAbsent) {
      if (!rewriter.is_foldable(op.inputs[i])) return false;
      continue;
    }
    const TensorGrid own = *grid_of(rewriter.value(roots[i]));
    if (!grid) grid = own;
    if (shifted(own, grid->dtype) != grid) return false;
  }
  if (!grid || !has_kernels(*grid)) return false;
  for (const DType dtype : types_for(grid->dtype)) {
    if (!integer_kernel_takes(rewriter.graph, op, dtype, true)) continue;
    const TensorGrid target = *shifted(*grid, dtype);
    for (size_t i = 0; i < op.inputs.size(); ++i)
      if (is_data(op, i) && roots[i] == core::kAbsent && !is_on_grid(rewriter, op.inputs[i], target)) return false;
    Op made = op;
    for (size_t i = 0; i < op.inputs.size(); ++i)
      if (is_data(op, i))
        made.inputs[i] = roots[i] == core::kAbsent ? constant_on_grid(rewriter, op.inputs[i], target)
                                                   : as_type(rewriter, roots[i], dtype);
    rebuild(rewriter, op, std::move(made), target, [&](ValueId integers, ValueId floats) {
      const core::Shape shape = rewriter.value(floats).shape;
      return push_one(rewriter, Kind::kDequantize, integers, DType::kFloat32, shape);
    });
    return true;
  }
  return false;
}

// Whether the op does the same with plain integers as with those of a grid. PAD fills with the number 0, which is
// another integer on a grid.
bool moves_integers(const Op& op) {
  return chooses(op) && core::builtin(op.kind).numbers == core::Numbers::kMoved && op.kind != Kind::kPad;
}

bool choose_plain_integers(Rewriter& rewriter, OpId id) {
  const Op op = rewriter.op(id);
  if (!moves_integers(op)) return false;
  rewriter.b.origin = op.origin;
  std::optional<TensorGrid> grid;
  Op made = op;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!is_data(op, i)) continue;
    const OpId producer = rewriter.producer(op.inputs[i]);
    if (producer < 0 || rewriter.op(producer).kind != Kind::kBitcast) return false;
    if (rewriter.value(op.inputs[i]).quantization) return false;  // this BITCAST adds a grid
    made.inputs[i] = rewriter.op(producer).inputs[0];
    const auto own = grid_of(rewriter.value(made.inputs[i]));
    if (!own || own->dtype != rewriter.value(op.inputs[i]).dtype || (grid && grid != own)) return false;
    grid = own;
  }
  if (!grid || !has_kernels(*grid) || !integer_kernel_takes(rewriter.graph, op, grid->dtype, true)) return false;
  rebuild(rewriter, op, std::move(made), *grid, [&](ValueId integers, ValueId plain) {
    const core::Shape shape = rewriter.value(plain).shape;
    return push_one(rewriter, Kind::kBitcast, integers, grid->dtype, shape);
  });
  return true;
}

bool quantize_before_choice(Rewriter& rewriter, OpId id) {
  const ValueId in = rewriter.op(id).inputs[0];
  const auto to = grid_of(rewriter.value(rewriter.op(id).outputs[0]));
  const OpId producer = rewriter.producer(in);
  if (!to || !has_kernels(*to) || producer < 0) return false;
  const Op op = rewriter.op(producer);
  if (op.stays_float || !chooses(op) || op.outputs.size() != 1) return false;
  // Integers change their type at most here: rescaling before a choice is exact too, but more work.
  const auto from = grid_of(rewriter.value(in));
  if (from ? !is_shift(*from, *to) : rewriter.value(in).dtype != DType::kFloat32) return false;
  const std::vector<OpId> users = rewriter.users(in);
  if (static_cast<int>(users.size()) != rewriter.uses(in)) return false;  // a graph output
  for (const OpId user : users)
    if (rewriter.op(user).kind != Kind::kQuantize || grid_of(rewriter.value(rewriter.op(user).outputs[0])) != to)
      return false;
  if (!integer_kernel_takes(rewriter.graph, op, to->dtype, true)) return false;
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (from && is_data(op, i) && rewriter.value(op.inputs[i]).is_constant()) return false;
  rewriter.b.origin = op.origin;
  Op made = op;
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (is_data(op, i))
      made.inputs[i] = rewriter.value(op.inputs[i]).is_constant() ? constant_on_grid(rewriter, op.inputs[i], *to)
                                                                  : quantized_to(rewriter, op.inputs[i], *to);
  const core::Shape shape = rewriter.value(in).shape;
  const ValueId out = push_on_grid(rewriter, std::move(made), *to, shape);
  for (const OpId user : users) rewriter.replace(rewriter.op(user).outputs[0], out);
  return true;
}

bool regrid_before_choice(Rewriter& rewriter, OpId id) {
  const ValueId in = rewriter.op(id).inputs[0];
  const auto grid = grid_of(rewriter.value(rewriter.op(id).outputs[0]));
  const OpId producer = rewriter.producer(in);
  if (!grid || !has_kernels(*grid) || producer < 0) return false;
  if (rewriter.value(in).quantization || rewriter.value(in).dtype != grid->dtype) return false;
  Op op = rewriter.op(producer);
  if (!moves_integers(op) || op.outputs.size() != 1) return false;
  const std::vector<OpId> users = rewriter.users(in);
  if (static_cast<int>(users.size()) != rewriter.uses(in)) return false;  // a graph output
  for (const OpId user : users)
    if (rewriter.op(user).kind != Kind::kBitcast || grid_of(rewriter.value(rewriter.op(user).outputs[0])) != grid)
      return false;
  size_t data = 0, count = 0;
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (is_data(op, i)) data = i, ++count;
  if (count != 1 || rewriter.value(op.inputs[data]).is_constant()) return false;
  if (!integer_kernel_takes(rewriter.graph, op, grid->dtype, true)) return false;
  rewriter.b.origin = op.origin;
  const core::Shape before = rewriter.value(op.inputs[data]).shape, after = rewriter.value(in).shape;
  op.inputs[data] = push_one(rewriter, Kind::kBitcast, op.inputs[data], grid->dtype, before);
  rewriter.graph.at(op.inputs[data]).quantization = quantization_of(*grid);
  const ValueId out = push_on_grid(rewriter, std::move(op), *grid, after);
  for (const OpId user : users) rewriter.replace(rewriter.op(user).outputs[0], out);
  return true;
}

}  // namespace lowtide::layout
