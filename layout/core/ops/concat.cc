// SPDX-License-Identifier: Apache-2.0
// CONCATENATION, SPLIT and SPLIT_V.
//
// The trap: SPLIT takes its axis first and its data second; SPLIT_V takes data, sizes, axis. One size may be -1.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "layout/core/ops/axes.h"
#include "layout/core/ops/rows.h"
#include "stream/error.h"

namespace lowtide::core {
namespace {

namespace recipe = stream::recipe;
using Types = std::vector<TensorType>;
using Recipes = std::vector<RecipeRef>;

// ---- CONCATENATION ----

int concat_axis(const OpView& op) { return front_axis(op, op.get<ConcatOptions>().axis, op.rank(0)); }

Types infer_concat(const OpView& op) {
  if (op.inputs.empty()) reject(op, "no inputs");
  need_inputs(op, op.inputs.size());
  if (op.rank(0) == 0) reject(op, "scalars cannot be concatenated");
  const auto axis = static_cast<size_t>(concat_axis(op));
  Shape out = op.shape(0);
  for (size_t i = 1; i < op.inputs.size(); ++i) {
    const Shape& in = op.shape(i);
    if (in.size() != out.size())
      reject(op, fmt::format("ranks differ: {} and {}", stream::to_string(out), stream::to_string(in)));
    if (op.dtype(i) != op.dtype(0)) reject(op, "the inputs' dtypes differ");
    for (size_t a = 0; a < out.size(); ++a)
      out[a] = a == axis ? op.symbols().add(out[a], in[a]) : agree(op, out[a], in[a], "dimensions beside the axis");
  }
  // Tensors of higher rank are data.
  return {{op.dtype(0), std::move(out), op.rank(0) == 1 ? joined_contents(op) : std::nullopt}};
}

Recipes fold_concat(const OpView& op) {
  Recipes parts;
  for (size_t i = 0; i < op.inputs.size(); ++i) parts.push_back(op.recipe(i));
  return {recipe::concat(std::move(parts), concat_axis(op))};
}

void rewrite_concat(Graph&, Op& op, const Movement& movement) {
  move_axis(std::get<ConcatOptions>(op.options).axis, movement.outputs[0]);
}

bool merge_concat(AxisMerger& m) {
  int& axis = std::get<ConcatOptions>(m.op.options).axis;
  return m.along_one_axis(axis, 0, m.op.inputs.size(), [&](int to) { axis = to; });
}

// ---- SPLIT, SPLIT_V ----

size_t data_slot(Kind kind) { return kind == Kind::kSplit ? 1 : 0; }
size_t axis_slot(Kind kind) { return kind == Kind::kSplit ? 0 : 2; }

int split_axis(const OpView& op) {
  std::vector<int64_t> axis = need_ints(op, axis_slot(op.kind), "axis");
  if (axis.size() != 1) reject(op, fmt::format("{} axes are given, 1 is needed", axis.size()));
  return front_axis(op, axis[0], op.rank(data_slot(op.kind)));
}

// Extents of the parts.
std::vector<Dim> split_sizes(const OpView& op, Dim extent) {
  const auto count = static_cast<size_t>(op.output_count);
  if (count == 0) reject(op, "no outputs");
  if (op.kind == Kind::kSplit) {
    auto part = op.symbols().exact_div(extent, op.output_count);
    if (!part && !is_symbol(extent))
      reject(op, fmt::format("an extent of {} cannot be split into {} equal parts", extent, count));
    return std::vector<Dim>(count, part ? *part : op.symbols().fresh("split"));
  }
  const std::vector<Dim>* known = op.contents(1);
  if (!known) {
    std::vector<Dim> sizes;
    for (size_t i = 0; i < count; ++i) sizes.push_back(op.symbols().fresh("split"));
    return sizes;
  }
  std::vector<Dim> sizes = *known;
  if (sizes.size() != count) reject(op, fmt::format("{} sizes for {} outputs", sizes.size(), count));
  Dim sum = 0;
  Dim* open = nullptr;
  for (Dim& size : sizes) {
    if (size == -1) {
      if (open) reject(op, "more than one size is -1");
      open = &size;
    } else {
      if (size < 0 && !is_symbol(size)) reject(op, fmt::format("size {} is negative", size));
      sum = op.symbols().add(sum, size);
    }
  }
  if (open) {
    *open = op.symbols().sub(extent, sum);
    if (*open < 0 && !is_symbol(*open)) reject(op, fmt::format("the sizes exceed the extent {}", extent));
  } else if (!is_symbol(sum) && !is_symbol(extent) && sum != extent) {
    reject(op, fmt::format("the sizes sum to {}, not {}", sum, extent));
  }
  return sizes;
}

// The elements of `data` from `begin` on, `extent` along the axis.
RecipeRef part_of(const RecipeRef& data, size_t axis, Dim begin, Dim extent) {
  std::vector<int64_t> from(data->dims.size(), 0), size = data->dims, stride(data->dims.size(), 1);
  from[axis] = begin;
  size[axis] = extent;
  return recipe::slice(data, from, size, stride);
}

Types infer_split(const OpView& op) {
  need_inputs(op, op.kind == Kind::kSplit ? 2 : 3);
  const size_t data = data_slot(op.kind);
  const auto axis = static_cast<size_t>(split_axis(op));
  Shape out = op.shape(data);
  const std::vector<Dim> sizes = split_sizes(op, out[axis]);
  const bool sizes_known = stream::is_static(sizes);
  Types types;
  Dim begin = 0;
  for (Dim size : sizes) {
    out[axis] = size;
    types.push_back({op.dtype(data), out, std::nullopt});
    if (!sizes_known) continue;
    types.back().contents = carried(op, data, [&](const RecipeRef& all) { return part_of(all, axis, begin, size); });
    begin += size;
  }
  return types;
}

Recipes fold_split(const OpView& op) {
  const RecipeRef& data = op.recipe(data_slot(op.kind));
  const auto axis = static_cast<size_t>(split_axis(op));
  const std::vector<Dim> sizes = split_sizes(op, data->dims[axis]);
  if (!stream::is_static(sizes)) return {};
  Recipes parts;
  Dim begin = 0;
  for (Dim size : sizes) {
    parts.push_back(part_of(data, axis, begin, size));
    begin += size;
  }
  return parts;
}

std::optional<Movement> commute_split(const OpView& op, std::span<const ValueId> outputs, Slot slot, const Perm& perm) {
  const size_t data = data_slot(op.kind);
  if ((!slot.output && slot.index != data) || !op.ints(axis_slot(op.kind))) return std::nullopt;
  Movement movement = movement_of(op, outputs.size());
  movement.inputs[data] = perm;
  movement.outputs.assign(outputs.size(), perm);
  return movement;
}
void rewrite_split(Graph& graph, Op& op, const Movement& movement) {
  move_axes(graph, op, axis_slot(op.kind), movement.outputs[0]);
}

bool merge_split(AxisMerger& m) {
  auto axis = m.ints(axis_slot(m.op.kind));
  if (!axis) return false;
  const size_t data = data_slot(m.op.kind);
  const auto rank = static_cast<int64_t>(m.in(data).size());
  const int64_t front = axis->at(0) < 0 ? axis->at(0) + rank : axis->at(0);
  return m.along_one_axis(static_cast<int>(front), data, 1,
                          [&](int to) { m.op.inputs[axis_slot(m.op.kind)] = m.b.i32_scalar(to).id; });
}

constexpr RowFunctions kSplitFunctions = {infer_split, fold_split, commute_split, rewrite_split, merge_split};

constexpr std::array kConcatRows = {
    moving(Kind::kConcatenation, {infer_concat, fold_concat, follow_all, rewrite_concat, merge_concat},
           Roles::all(kData)),
    moving(Kind::kSplit, kSplitFunctions, {kIndices, kData}),
    moving(Kind::kSplitV, kSplitFunctions, {kData, kIndices, kIndices}),
};

}  // namespace

std::span<const Builtin> concat_builtins() { return kConcatRows; }

}  // namespace lowtide::core
