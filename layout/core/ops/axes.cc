// SPDX-License-Identifier: Apache-2.0
#include "layout/core/ops/axes.h"

#include <fmt/format.h>

#include <algorithm>

#include "layout/core/dim_requirements.h"
#include "stream/error.h"
#include "stream/recipe/recipe_reader.h"

namespace lowtide::core {

int front_axis(const OpView& op, int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) reject(op, fmt::format("axis {} is outside a tensor of rank {}", axis, rank));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::vector<int64_t> need_ints(const OpView& op, size_t input, const char* what) {
  if (auto known = op.ints(input)) return *known;
  throw stream::Unsupported(fmt::format("{} of {} known at run time only", what, kind_name(op.kind)));
}

Dim agree(const OpView& op, Dim a, Dim b, const char* what) {
  if (op.requirements) op.requirements->equal(a, b);
  if (is_symbol(a)) return b;
  if (!is_symbol(b) && a != b) reject(op, fmt::format("{} differ: {} and {}", what, a, b));
  return a;
}

Shape listed_shape(const OpView& op, size_t input) {
  if (op.rank(input) != 1) reject(op, fmt::format("the shape has rank {}, not 1", op.rank(input)));
  if (const std::vector<Dim>* known = op.contents(input)) {
    for (Dim dim : *known)
      if (dim < 0 && !is_symbol(dim)) reject(op, fmt::format("dimension {} is negative", dim));
    return *known;
  }
  Dim rank = op.shape(input)[0];
  if (is_symbol(rank))
    throw stream::Unsupported(
        fmt::format("the rank of the result of {} is known at run time only", kind_name(op.kind)));
  constexpr Dim kMostOpenAxes = 64;  // kernels take 8; a hostile file could ask for a symbol for each of 2^31 axes
  if (rank > kMostOpenAxes)
    throw stream::Unsupported(
        fmt::format("the result of {} has {} axes: {} is the most", kind_name(op.kind), rank, kMostOpenAxes));
  Shape out;
  for (Dim i = 0; i < rank; ++i) out.push_back(op.symbols().fresh("dim"));
  return out;
}

Perm drop_axes(const Perm& perm, const std::vector<int>& axes) {
  Perm out;
  for (int axis : perm) {
    if (std::count(axes.begin(), axes.end(), axis)) continue;
    auto before = std::count_if(axes.begin(), axes.end(), [&](int dropped) { return dropped < axis; });
    out.push_back(axis - static_cast<int>(before));
  }
  return out;
}

Perm insert_axes(const Perm& perm, const std::vector<int>& axes) {
  const int rank = static_cast<int>(perm.size() + axes.size());
  std::vector<int> kept;
  for (int axis = 0; axis < rank; ++axis)
    if (!std::count(axes.begin(), axes.end(), axis)) kept.push_back(axis);
  Perm out;
  size_t next = 0;
  for (int place = 0; place < rank; ++place) {
    bool inserted = std::count(axes.begin(), axes.end(), place) != 0;
    out.push_back(inserted ? place : kept[static_cast<size_t>(perm[next++])]);
  }
  return out;
}

void permute_entries(Graph& graph, Op& op, size_t input, const Perm& perm, int width) {
  const Value& value = graph.at(op.inputs[input]);
  const DType dtype = value.dtype;
  const Shape shape = value.shape;
  std::vector<int64_t> before = *graph.ints(op.inputs[input]), after;
  for (int axis : perm)
    for (int i = 0; i < width; ++i) after.push_back(before[static_cast<size_t>(axis * width + i)]);
  op.inputs[input] = graph.add_ints(after, dtype, shape);
}

void move_axes(Graph& graph, Op& op, size_t input, const Perm& perm) {
  const Value& value = graph.at(op.inputs[input]);
  const DType dtype = value.dtype;
  const Shape shape = value.shape;
  std::vector<int64_t> axes = *graph.ints(op.inputs[input]);
  for (int64_t& axis : axes) {
    int front = static_cast<int>(axis < 0 ? axis + static_cast<int64_t>(perm.size()) : axis);
    axis = moved_axis(front, perm);
  }
  op.inputs[input] = graph.add_ints(axes, dtype, shape);
}

void move_axis(int& axis, const Perm& perm) {
  axis = moved_axis(axis < 0 ? axis + static_cast<int>(perm.size()) : axis, perm);
}

Movement movement_of(const OpView& op, size_t outputs) {
  Movement movement;
  movement.inputs.resize(op.inputs.size());
  movement.outputs.resize(outputs);
  return movement;
}

Movement dropping_axes(const OpView& op, size_t outputs, Slot slot, const Perm& perm, const std::vector<int>& axes) {
  Movement movement = movement_of(op, outputs);
  movement.inputs[0] = slot.output ? insert_axes(perm, axes) : perm;
  movement.outputs.assign(outputs, slot.output ? perm : drop_axes(perm, axes));
  return movement;
}

Movement adding_axes(const OpView& op, size_t outputs, Slot slot, const Perm& perm, const std::vector<int>& axes) {
  Movement movement = movement_of(op, outputs);
  movement.inputs[0] = slot.output ? drop_axes(perm, axes) : perm;
  movement.outputs.assign(outputs, slot.output ? perm : insert_axes(perm, axes));
  return movement;
}

std::optional<std::vector<Dim>> carried(const OpView& op, size_t input,
                                        const std::function<RecipeRef(RecipeRef)>& move) {
  if (op.in(input).is_constant()) return std::nullopt;  // folded instead
  const std::vector<Dim>* known = op.contents(input);
  if (!known) return std::nullopt;
  const auto count = static_cast<int64_t>(known->size());
  RecipeRef places = stream::recipe::reshape(stream::recipe::iota(0, 1, DType::kInt64, count), op.shape(input));
  places = move(std::move(places));
  if (places->elements() > kContentsElements) return std::nullopt;
  std::vector<Dim> out;
  for (int64_t place : stream::evaluate_ints(places, op.graph.budget))
    out.push_back((*known)[static_cast<size_t>(place)]);
  return out;
}

std::optional<std::vector<Dim>> same_contents(const OpView& op, size_t input) {
  if (op.in(input).is_constant()) return std::nullopt;
  const std::vector<Dim>* known = op.contents(input);
  return known ? std::optional(*known) : std::nullopt;
}

std::optional<std::vector<Dim>> joined_contents(const OpView& op) {
  std::vector<Dim> all;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const std::vector<Dim>* part = op.contents(i);
    if (!part || part->size() > kContentsElements - all.size()) return std::nullopt;
    all.insert(all.end(), part->begin(), part->end());
  }
  return all;
}

}  // namespace lowtide::core
