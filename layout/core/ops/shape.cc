// SPDX-License-Identifier: Apache-2.0
// Ops that change a tensor's shape and no byte, or make shapes: RESHAPE, SQUEEZE, EXPAND_DIMS, SHAPE, TRANSPOSE, PACK,
// UNPACK, BITCAST.
//
// The trap: RESHAPE's shape input may hold one -1; unlike ONNX's, its 0 is a true zero. SQUEEZE without dims drops
// every axis of extent 1, so its rank depends on extents.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "layout/core/builder.h"
#include "layout/core/ops/axes.h"
#include "layout/core/ops/rows.h"
#include "layout/core/reshape_groups.h"
#include "stream/error.h"

namespace lowtide::core {
namespace {

namespace recipe = stream::recipe;
using Types = std::vector<TensorType>;
using Recipes = std::vector<RecipeRef>;

// ---- RESHAPE ----

// The dimension that is given as -1: the elements that the other dimensions leave.
Dim left_over(const OpView& op, const Shape& others) {
  Dim total = op.symbols().product(op.shape(0)), rest = op.symbols().product(others);
  if (rest == 0) reject(op, "-1 beside a dimension of 0 is ambiguous");
  if (auto exact = op.symbols().exact_div(total, rest)) return *exact;
  if (!is_symbol(total) && !is_symbol(rest))
    reject(op, fmt::format("{} elements cannot be reshaped to {}", total, stream::to_string(others)));
  return op.symbols().fresh("reshape");
}

Types infer_reshape(const OpView& op) {
  need_inputs(op, 2);
  Shape out;
  if (const std::vector<Dim>* wanted = op.contents(1)) {
    if (op.rank(1) != 1) reject(op, fmt::format("the shape has rank {}, not 1", op.rank(1)));
    out = *wanted;
    auto open = std::find(out.begin(), out.end(), -1);
    if (open != out.end()) {
      Shape others = out;
      others.erase(others.begin() + (open - out.begin()));
      if (std::count(others.begin(), others.end(), -1)) reject(op, "more than one dimension is -1");
      *open = left_over(op, others);
    }
    for (Dim dim : out)
      if (dim < 0 && !is_symbol(dim)) reject(op, fmt::format("dimension {} is negative", dim));
  } else {
    out = listed_shape(op, 1);
  }
  if (stream::is_static(op.shape(0)) && stream::is_static(out) &&
      stream::element_count(op.shape(0)) != stream::element_count(out))
    reject(op, fmt::format("{} cannot be reshaped to {}", stream::to_string(op.shape(0)), stream::to_string(out)));
  std::optional<std::vector<Dim>> contents = same_contents(op, 0);
  // Elements that are known are counted; the extent need not be.
  if (contents && !stream::is_static(out)) {
    if (out.size() == 1)
      out[0] = static_cast<Dim>(contents->size());
    else
      contents.reset();
  }
  return {{op.dtype(0), std::move(out), std::move(contents)}};
}

// Any op that changes the shape and keeps the elements in order.
template <Infer infer>
Recipes fold_reshape(const OpView& op) {
  return {recipe::reshape(op.recipe(0), infer(op)[0].shape)};
}

std::optional<Movement> commute_reshape(const OpView& op, std::span<const ValueId> outputs, Slot slot,
                                        const Perm& perm) {
  if (slot.index != 0) return std::nullopt;
  const Shape &in = op.shape(0), &out = op.graph.at(outputs[0]).shape;
  auto other =
      slot.output ? perm_across_reshape(op.symbols(), out, in, perm) : perm_across_reshape(op.symbols(), in, out, perm);
  if (!other) return std::nullopt;
  Movement movement = movement_of(op, 1);
  movement.inputs[0] = slot.output ? *other : perm;
  movement.outputs[0] = slot.output ? perm : *other;
  return movement;
}

void rewrite_reshape(Graph& graph, Op& op, const Movement& movement) {
  const Perm& perm = movement.outputs[0];
  if (perm.empty()) return;
  if (graph.ints(op.inputs[1])) return permute_entries(graph, op, 1, perm);
  // A shape that is computed at run time is a list of a few numbers, whose order changes then too.
  Builder b(graph);
  b.origin = op.origin;
  op.inputs[1] = b.gather({op.inputs[1]}, b.i32(std::vector<int64_t>(perm.begin(), perm.end())), 0).id;
}

// ---- SQUEEZE, EXPAND_DIMS ----

std::vector<int> squeezed_axes(const OpView& op) {
  const Shape& in = op.shape(0);
  std::vector<int> axes;
  for (int32_t axis : op.get<SqueezeOptions>().dims) axes.push_back(front_axis(op, axis, op.rank(0)));
  if (axes.empty()) {
    if (!stream::is_static(in)) throw stream::Unsupported("the axes that SQUEEZE drops are known at run time only");
    for (int axis = 0; axis < op.rank(0); ++axis)
      if (in[static_cast<size_t>(axis)] == 1) axes.push_back(axis);
  }
  return axes;
}

Types infer_squeeze(const OpView& op) {
  need_inputs(op, 1);
  std::vector<int> axes = squeezed_axes(op);
  Shape out;
  for (int axis = 0; axis < op.rank(0); ++axis) {
    Dim dim = op.shape(0)[static_cast<size_t>(axis)];
    if (!std::count(axes.begin(), axes.end(), axis))
      out.push_back(dim);
    else if (dim != 1 && !is_symbol(dim))
      reject(op, fmt::format("axis {} of extent {} cannot be dropped", axis, dim));
  }
  return {{op.dtype(0), std::move(out), same_contents(op, 0)}};
}

std::optional<Movement> commute_squeeze(const OpView& op, std::span<const ValueId>, Slot slot, const Perm& perm) {
  return dropping_axes(op, 1, slot, perm, squeezed_axes(op));
}

void rewrite_squeeze(Graph&, Op& op, const Movement& movement) {
  for (int32_t& axis : std::get<SqueezeOptions>(op.options).dims) move_axis(axis, movement.inputs[0]);
}

int expanded_axis(const OpView& op) {
  std::vector<int64_t> axis = need_ints(op, 1, "axis");
  if (axis.size() != 1) reject(op, fmt::format("{} axes are given, 1 is needed", axis.size()));
  return front_axis(op, axis[0], op.rank(0) + 1);
}

Types infer_expand_dims(const OpView& op) {
  need_inputs(op, 2);
  Shape out = op.shape(0);
  out.insert(out.begin() + expanded_axis(op), 1);
  return {{op.dtype(0), std::move(out), same_contents(op, 0)}};
}

std::optional<Movement> commute_expand_dims(const OpView& op, std::span<const ValueId>, Slot slot, const Perm& perm) {
  if (slot.index != 0 || !op.ints(1)) return std::nullopt;
  return adding_axes(op, 1, slot, perm, {expanded_axis(op)});
}

void rewrite_expand_dims(Graph& graph, Op& op, const Movement& movement) {
  move_axes(graph, op, 1, movement.outputs[0]);
}

// ---- SHAPE ----

Types infer_shape(const OpView& op) {
  need_inputs(op, 1);
  const Shape& shape = op.shape(0);
  std::copy_if(shape.begin(), shape.end(), std::inserter(op.graph.extents, op.graph.extents.end()), is_symbol);
  return {{op.get<IndexOptions>().dtype, {static_cast<Dim>(shape.size())}, shape}};
}

// ---- TRANSPOSE: settle_layouts decides where it stays, so it does not commute ----

Perm transpose_perm(const OpView& op) {
  std::vector<int64_t> list = need_ints(op, 1, "permutation");
  Perm perm(list.begin(), list.end());
  for (int& axis : perm)
    if (axis < 0) axis += op.rank(0);
  Perm sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != stream::identity_perm(op.rank(0)))
    reject(op, fmt::format("the list is not a permutation of {} axes", op.rank(0)));
  return perm;
}

Types infer_transpose(const OpView& op) {
  need_inputs(op, 2);
  Perm perm = transpose_perm(op);
  return {{op.dtype(0), stream::permuted(op.shape(0), perm),
           carried(op, 0, [&](RecipeRef data) { return recipe::permute(std::move(data), perm); })}};
}
Recipes fold_transpose(const OpView& op) { return {recipe::permute(op.recipe(0), transpose_perm(op))}; }

// Axes that stay side by side are one.
bool merge_transposed(AxisMerger& m) {
  auto perm = m.ints(1);
  if (!perm) return false;
  AxisMarks run_of(perm->size());
  std::vector<int64_t> order;  // the runs, as the output has them
  for (size_t i = 0; i < perm->size(); ++i) {
    if (i == 0 || (*perm)[i] != (*perm)[i - 1] + 1) order.push_back(static_cast<int64_t>(i));
    run_of[static_cast<size_t>((*perm)[i])] = kAlone + order.back();
  }
  const AxisGroups groups = group_axes(run_of);
  std::vector<int64_t> fewer;
  Shape to;
  for (int64_t first : order) fewer.push_back(groups.of[static_cast<size_t>((*perm)[static_cast<size_t>(first)])]);
  m.merge_input(0, groups);
  for (int64_t g : fewer) to.push_back(m.in(0)[static_cast<size_t>(g)]);
  m.op.inputs[1] = m.b.i32(fewer).id;
  m.replace_output(0, std::move(to));
  return true;
}

// ---- PACK, UNPACK ----

int pack_axis(const OpView& op) {
  return front_axis(op, op.get<PackOptions>().axis, op.kind == Kind::kPack ? op.rank(0) + 1 : op.rank(0));
}

Types infer_pack(const OpView& op) {
  if (op.inputs.empty()) reject(op, "no inputs");
  need_inputs(op, op.inputs.size());
  Shape out = op.shape(0);
  for (size_t i = 1; i < op.inputs.size(); ++i) {
    if (op.rank(i) != op.rank(0) || op.dtype(i) != op.dtype(0)) reject(op, "the inputs' ranks or dtypes differ");
    for (size_t a = 0; a < out.size(); ++a) out[a] = agree(op, out[a], op.shape(i)[a], "the inputs' dimensions");
  }
  const int axis = pack_axis(op);
  out.insert(out.begin() + axis, static_cast<Dim>(op.inputs.size()));
  return {{op.dtype(0), std::move(out), axis == 0 ? joined_contents(op) : std::nullopt}};
}

Recipes fold_pack(const OpView& op) {
  const int axis = pack_axis(op);
  Recipes parts;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    Shape shape = op.shape(i);
    shape.insert(shape.begin() + axis, 1);
    parts.push_back(recipe::reshape(op.recipe(i), shape));
  }
  return {recipe::concat(std::move(parts), axis)};
}

std::optional<Movement> commute_pack(const OpView& op, std::span<const ValueId>, Slot slot, const Perm& perm) {
  Movement movement = adding_axes(op, 1, slot, perm, {pack_axis(op)});
  std::fill(movement.inputs.begin(), movement.inputs.end(), movement.inputs[0]);
  return movement;
}
void rewrite_pack(Graph&, Op& op, const Movement& movement) {
  move_axis(std::get<PackOptions>(op.options).axis, movement.outputs[0]);
}

Types infer_unpack(const OpView& op) {
  need_inputs(op, 1);
  if (op.rank(0) == 0) reject(op, "a scalar cannot be unpacked");
  const int axis = pack_axis(op);
  Shape out = op.shape(0);
  if (Dim extent = out[static_cast<size_t>(axis)]; !is_symbol(extent) && extent != op.output_count)
    reject(op, fmt::format("{} outputs for an extent of {}", op.output_count, extent));
  out.erase(out.begin() + axis);
  Types types(static_cast<size_t>(op.output_count), {op.dtype(0), out, std::nullopt});
  if (auto all = same_contents(op, 0); all && axis == 0) {
    const auto each = static_cast<ptrdiff_t>(all->size()) / std::max(op.output_count, 1);
    for (ptrdiff_t i = 0; i < op.output_count; ++i)
      types[static_cast<size_t>(i)].contents.emplace(all->begin() + i * each, all->begin() + (i + 1) * each);
  }
  return types;
}

Recipes fold_unpack(const OpView& op) {
  const int axis = pack_axis(op);
  Shape out = op.shape(0);
  std::vector<int64_t> begin(out.size(), 0), size = out, stride(out.size(), 1);
  out.erase(out.begin() + axis);
  size[static_cast<size_t>(axis)] = 1;
  Recipes parts;
  for (int i = 0; i < op.output_count; ++i) {
    begin[static_cast<size_t>(axis)] = i;
    parts.push_back(recipe::reshape(recipe::slice(op.recipe(0), begin, size, stride), out));
  }
  return parts;
}

std::optional<Movement> commute_unpack(const OpView& op, std::span<const ValueId> outputs, Slot slot,
                                       const Perm& perm) {
  return dropping_axes(op, outputs.size(), slot, perm, {pack_axis(op)});
}
void rewrite_unpack(Graph&, Op& op, const Movement& movement) {
  move_axis(std::get<PackOptions>(op.options).axis, movement.inputs[0]);
}

// ---- BITCAST: a narrower element adds a last axis, a wider one takes it away ----

Types infer_bitcast(const OpView& op) {
  need_inputs(op, 1);
  const DType to = op.get<IndexOptions>().dtype;
  Shape out = op.shape(0);
  const int from_bits = stream::bits(op.dtype(0)), to_bits = stream::bits(to);
  if (from_bits < 8 || to_bits < 8) reject(op, "elements are smaller than a byte");
  if (from_bits > to_bits) out.push_back(from_bits / to_bits);
  if (from_bits < to_bits) {
    if (out.empty() || out.back() != to_bits / from_bits)
      reject(op, fmt::format("the last extent must be {}", to_bits / from_bits));
    out.pop_back();
  }
  return {{to, std::move(out), std::nullopt}};
}
// Axes are merged where the element's width stays.
bool merge_bitcast(AxisMerger& m) { return m.in(0).size() == m.out().size() && merge_elementwise(m); }

constexpr Builtin sharing(Builtin row) { return with(row, Memory::kSharesInput); }

constexpr std::array kShapeRows = {
    sharing(moving(Kind::kReshape,
                   {infer_reshape, fold_reshape<infer_reshape>, commute_reshape, rewrite_reshape, kNotMerged},
                   {kData, kIndices})),
    sharing(moving(Kind::kSqueeze,
                   {infer_squeeze, fold_reshape<infer_squeeze>, commute_squeeze, rewrite_squeeze, kNotMerged},
                   {kData})),
    sharing(moving(
        Kind::kExpandDims,
        {infer_expand_dims, fold_reshape<infer_expand_dims>, commute_expand_dims, rewrite_expand_dims, kNotMerged},
        {kData, kIndices})),
    computing(Kind::kShape, {infer_shape, kNotFolded, kFixed, kNothingToRewrite, kNotMerged}, {kData}, {kOther}),
    moving(Kind::kTranspose, {infer_transpose, fold_transpose, kFixed, kNothingToRewrite, merge_transposed},
           {kData, kIndices32}),
    moving(Kind::kPack, {infer_pack, fold_pack, commute_pack, rewrite_pack, kNotMerged}, Roles::all(kData)),
    moving(Kind::kUnpack, {infer_unpack, fold_unpack, commute_unpack, rewrite_unpack, kNotMerged}, {kData}),
    sharing(computing(Kind::kBitcast, {infer_bitcast, kNotFolded, follow_first, kNothingToRewrite, merge_bitcast},
                      {kData}, {kOther})),
};

}  // namespace

std::span<const Builtin> shape_builtins() { return kShapeRows; }

}  // namespace lowtide::core
