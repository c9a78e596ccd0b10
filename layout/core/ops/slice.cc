// SPDX-License-Identifier: Apache-2.0
// Ops that take or replace a part, or reverse an axis: SLICE, STRIDED_SLICE, DYNAMIC_UPDATE_SLICE,
// REVERSE_V2, REVERSE_SEQUENCE.
//
// The trap: STRIDED_SLICE clamps like numpy, SLICE does not; a mask bit overrides the listed begin or end. With a
// symbolic extent the clamp cannot always be decided: then the result's extent is a fresh symbol.
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

void need_list(const OpView& op, size_t input, int rank) {
  const Shape& shape = op.shape(input);
  if (shape.size() != 1 || (!is_symbol(shape[0]) && shape[0] != rank))
    reject(op, fmt::format("input {} has shape {}, not [{}]", input, stream::to_string(shape), rank));
}

// ---- SLICE ----

Types infer_slice(const OpView& op) {
  need_inputs(op, 3);
  const int rank = op.rank(0);
  need_list(op, 1, rank);
  need_list(op, 2, rank);
  const std::vector<Dim>*begin = op.contents(1), *size = op.contents(2);
  Shape out;
  for (size_t a = 0; a < static_cast<size_t>(rank); ++a) {
    const Dim extent = op.shape(0)[a];
    if (!size || ((*size)[a] == -1 && !begin)) {
      out.push_back(op.symbols().fresh("slice"));
      continue;
    }
    out.push_back((*size)[a] == -1 ? op.symbols().sub(extent, (*begin)[a]) : (*size)[a]);
    const bool known = !is_symbol(extent) && !is_symbol(out.back()) && begin && !is_symbol((*begin)[a]);
    if ((out.back() < 0 && !is_symbol(out.back())) || (begin && (*begin)[a] < 0 && !is_symbol((*begin)[a])) ||
        (known && (*begin)[a] + out.back() > extent))
      reject(op, fmt::format("axis {}: a slice of {} elements exceeds the extent {}", a, out.back(), extent));
  }
  std::optional<std::vector<Dim>> contents;
  if (auto from = op.ints(1); from && stream::is_static(out))
    contents = carried(op, 0, [&](RecipeRef data) {
      return recipe::slice(std::move(data), *from, out, std::vector<int64_t>(out.size(), 1));
    });
  return {{op.dtype(0), out, std::move(contents)}};
}

Recipes fold_slice(const OpView& op) {
  Shape out = infer_slice(op)[0].shape;
  auto begin = op.ints(1);
  if (!begin || !stream::is_static(out)) return {};
  return {recipe::slice(op.recipe(0), *begin, out, std::vector<int64_t>(out.size(), 1))};
}

std::optional<Movement> commute_slice(const OpView& op, std::span<const ValueId> outputs, Slot slot, const Perm& perm) {
  if (!op.ints(1) || !op.ints(2)) return std::nullopt;
  return follow_first(op, outputs, slot, perm);
}
void rewrite_slice(Graph& graph, Op& op, const Movement& movement) {
  permute_entries(graph, op, 1, movement.inputs[0]);
  permute_entries(graph, op, 2, movement.inputs[0]);
}

bool merge_sliced(AxisMerger& m) {
  auto begin = m.ints(1), size = m.ints(2);
  if (!begin || !size) return false;
  AxisMarks marks;
  for (size_t i = 0; i < m.in(0).size(); ++i) {
    const bool whole = (*begin)[i] == 0 && ((*size)[i] == -1 || (*size)[i] == m.in(0)[i]);
    marks.push_back(whole ? 0 : kAlone + static_cast<int64_t>(i));
  }
  const AxisGroups groups = group_axes(marks);
  std::vector<int64_t> from(static_cast<size_t>(groups.count), 0), count(static_cast<size_t>(groups.count), -1);
  for (size_t i = 0; i < marks.size(); ++i) {
    if (marks[i] < kAlone) continue;
    from[groups.group_of(i)] = (*begin)[i];
    count[groups.group_of(i)] = (*size)[i];
  }
  m.merge_input(0, groups);
  const Shape& merged = m.b.graph.at(m.op.inputs[0]).shape;
  for (size_t i = 0; i < count.size(); ++i)
    if (count[i] == -1 && !is_symbol(merged[i])) count[i] = merged[i] - from[i];
  m.op.inputs[1] = m.b.i32(from).id;
  m.op.inputs[2] = m.b.i32(count).id;
  m.merge_output(0, groups);
  return true;
}

// ---- STRIDED_SLICE ----

// One axis: the first element, the step, and how many there are. `begin` is meaningful only when the count is a number.
struct Range {
  int64_t begin = 0, stride = 1;
  Dim count = 0;
};

// Whether an extent may be 0. Those of the model's inputs are taken to be at least 1: decoders shift their tokens by
// one, [:-1], and the formula of what is left is simple so. What is made of them may be 0 where they are not.
bool may_be_empty(const OpView& op, Dim extent) {
  return !op.graph.chosen_extents->contains(extent) &&
         !op.symbols().is_not_negative(op.symbols().sub(extent, 1), op.graph.extents);
}

Range symbolic_range(const OpView& op, Dim extent, std::optional<Dim> begin, std::optional<Dim> end, int64_t stride) {
  Symbols& symbols = op.symbols();
  const bool whole_end = !end || *end == extent;
  if (stride < 0) {
    if (!begin && !end) return {0, stride, symbols.ceil_div(extent, -stride)};
    return {0, stride, symbols.fresh("slice")};
  }
  const Dim from = begin.value_or(0);
  if (is_symbol(from) || (end && is_symbol(*end) && !whole_end)) return {0, stride, symbols.fresh("slice")};
  const auto first = [&](int64_t count) {  // of so many elements
    return count == 1 && !may_be_empty(op, extent) ? 1 : symbols.min(extent, count);
  };
  const auto without = [&](int64_t count) {
    if (count == 0) return extent;
    const Dim left = symbols.sub(extent, count);
    const bool is_certain =
        (count == 1 && !may_be_empty(op, extent)) || symbols.is_not_negative(left, op.graph.extents);
    return is_certain ? left : symbols.max(left, 0);
  };
  if (whole_end) return {from, stride, symbols.ceil_div(from < 0 ? first(-from) : without(from), stride)};
  if (from == 0 && *end < 0) return {from, stride, symbols.ceil_div(without(-*end), stride)};  // [:-k]
  if (from == 0) return {0, stride, *end == 0 ? 0 : symbols.ceil_div(first(*end), stride)};
  return {0, stride, symbols.fresh("slice")};
}

Range static_range(int64_t extent, std::optional<Dim> begin, std::optional<Dim> end, int64_t stride) {
  if (extent == 0) return {0, stride, 0};
  const int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? extent : extent - 1;
  auto clamp = [&](int64_t index) { return std::clamp(index < 0 ? index + extent : index, low, high); };
  const int64_t from = begin ? clamp(*begin) : (stride > 0 ? 0 : extent - 1);
  const int64_t to = end ? clamp(*end) : (stride > 0 ? extent : -1);
  const int64_t length = stride > 0 ? to - from : from - to, step = stride > 0 ? stride : -stride;
  return {from, stride, length <= 0 ? 0 : (length - 1) / step + 1};
}

struct Ranges {
  std::vector<Range> axes;
  std::vector<int> shrunk;  // axes that are dropped
};

Ranges strided_ranges(const OpView& op) {
  const auto& options = op.get<StridedSliceOptions>();
  const int rank = op.rank(0);
  for (size_t input : {1u, 2u, 3u}) need_list(op, input, rank);
  const std::optional<std::vector<int64_t>> strides = op.ints(3);
  if (!strides && options.shrink_axis_mask) need_ints(op, 3, "strides");
  const std::vector<int64_t> stride = strides.value_or(std::vector<int64_t>(static_cast<size_t>(rank), 1));
  const std::vector<Dim>*begin = strides ? op.contents(1) : nullptr, *end = strides ? op.contents(2) : nullptr;
  Ranges out;
  for (int axis = 0; axis < rank; ++axis) {
    const auto a = static_cast<size_t>(axis);
    const Dim extent = op.shape(0)[a];
    if (stride[a] == 0) reject(op, fmt::format("the stride of axis {} is 0", axis));
    const bool all_before = has_bit(options.begin_mask, a), all_after = has_bit(options.end_mask, a);
    if (has_bit(options.shrink_axis_mask, a)) {
      out.shrunk.push_back(axis);
      if (stride[a] < 0) reject(op, fmt::format("axis {} is dropped, but its stride is negative", axis));
      int64_t from = 0;
      if (begin && !all_before && !is_symbol((*begin)[a]) && !is_symbol(extent)) {
        // A begin before the first element is that one, as in LiteRT. Behind the last one it reads other memory.
        from = (*begin)[a] < 0 ? std::max<int64_t>((*begin)[a] + extent, 0) : (*begin)[a];
        if (from >= extent) reject(op, fmt::format("index {} is outside an extent of {}", from, extent));
      }
      out.axes.push_back({from, 1, 1});
      continue;
    }
    if (!strides || (!all_before && !begin) || (!all_after && !end)) {
      out.axes.push_back({0, stride[a], op.symbols().fresh("slice")});
      continue;
    }
    std::optional<Dim> from, to;
    if (!all_before) from = (*begin)[a];
    if (!all_after) to = (*end)[a];
    const bool known = !is_symbol(extent) && !(from && is_symbol(*from)) && !(to && is_symbol(*to));
    out.axes.push_back(known ? static_range(extent, from, to, stride[a])
                             : symbolic_range(op, extent, from, to, stride[a]));
  }
  return out;
}

Shape strided_shape(const Ranges& ranges) {
  Shape out;
  for (size_t a = 0; a < ranges.axes.size(); ++a)
    if (!std::count(ranges.shrunk.begin(), ranges.shrunk.end(), static_cast<int>(a)))
      out.push_back(ranges.axes[a].count);
  return out;
}

RecipeRef take(RecipeRef data, const Ranges& ranges) {
  std::vector<int64_t> begin, size, stride;
  for (const Range& range : ranges.axes) {
    begin.push_back(range.count == 0 ? 0 : range.begin);
    size.push_back(range.count);
    stride.push_back(range.stride);
  }
  return recipe::reshape(recipe::slice(std::move(data), begin, size, stride), strided_shape(ranges));
}

// The begin of a dropped axis and of a plain one must be known before elements can be followed.
bool begins_known(const OpView& op) { return op.ints(1) && op.ints(2) && op.ints(3) && stream::is_static(op.shape(0)); }

Types infer_strided_slice(const OpView& op) {
  need_inputs(op, 4);
  const Ranges ranges = strided_ranges(op);
  std::optional<std::vector<Dim>> contents;
  if (begins_known(op)) contents = carried(op, 0, [&](RecipeRef data) { return take(std::move(data), ranges); });
  return {{op.dtype(0), strided_shape(ranges), std::move(contents)}};
}

Recipes fold_strided_slice(const OpView& op) {
  if (!begins_known(op)) return {};
  return {take(op.recipe(0), strided_ranges(op))};
}

std::vector<int> shrunk_axes(const StridedSliceOptions& options, int rank) {
  std::vector<int> axes;
  for (int axis = 0; axis < rank; ++axis)
    if (has_bit(options.shrink_axis_mask, static_cast<size_t>(axis))) axes.push_back(axis);
  return axes;
}

std::optional<Movement> commute_strided_slice(const OpView& op, std::span<const ValueId>, Slot slot, const Perm& perm) {
  const auto& options = op.get<StridedSliceOptions>();
  if (slot.index != 0 || !op.ints(1) || !op.ints(2) || !op.ints(3)) return std::nullopt;
  return dropping_axes(op, 1, slot, perm, shrunk_axes(options, op.rank(0)));
}

void rewrite_strided_slice(Graph& graph, Op& op, const Movement& movement) {
  const Perm& perm = movement.inputs[0];
  for (size_t input : {1u, 2u, 3u}) permute_entries(graph, op, input, perm);
  auto& options = std::get<StridedSliceOptions>(op.options);
  for (int* mask : {&options.begin_mask, &options.end_mask, &options.shrink_axis_mask}) {
    int moved = 0;
    for (size_t i = 0; i < perm.size(); ++i)
      if (has_bit(*mask, static_cast<size_t>(perm[i]))) moved |= 1 << i;
    *mask = moved;
  }
}

// ---- DYNAMIC_UPDATE_SLICE: operand, update, start indices (clamped so that the update fits) ----

Types infer_dynamic_update_slice(const OpView& op) {
  need_inputs(op, 3);
  if (op.dtype(0) != op.dtype(1) || op.rank(0) != op.rank(1))
    reject(op, "the operand and the update differ in dtype or rank");
  need_list(op, 2, op.rank(0));
  for (size_t a = 0; a < op.shape(0).size(); ++a) {
    const Dim whole = op.shape(0)[a], part = op.shape(1)[a];
    if (!is_symbol(whole) && !is_symbol(part) && part > whole)
      reject(op, fmt::format("axis {}: an update of {} elements exceeds the extent {}", a, part, whole));
  }
  return {{op.dtype(0), op.shape(0), std::nullopt}};
}

// The update between what the operand has before and behind it, axis by axis from the last: a part holds the box on the
// axes before it, and all of those behind.
Recipes fold_dynamic_update_slice(const OpView& op) {
  const Shape &whole = op.shape(0), &part = op.shape(1);
  const auto from = op.ints(2);
  if (!from || !stream::is_static(whole) || !stream::is_static(part)) return {};
  if (stream::element_count(part) == 0) return {op.recipe(0)};
  Shape box_begin;
  for (size_t a = 0; a < whole.size(); ++a) box_begin.push_back(std::clamp<int64_t>((*from)[a], 0, whole[a] - part[a]));
  RecipeRef made = op.recipe(1);
  for (size_t a = whole.size(); a-- > 0;) {
    Shape begin(whole.size(), 0), size = whole;
    std::copy_n(box_begin.begin(), a, begin.begin());
    std::copy_n(part.begin(), a, size.begin());
    Recipes parts;
    const auto add = [&](Dim at, Dim extent) {
      begin[a] = at;
      size[a] = extent;
      if (extent > 0) parts.push_back(recipe::slice(op.recipe(0), begin, size, Shape(whole.size(), 1)));
    };
    add(0, box_begin[a]);
    parts.push_back(std::move(made));
    const Dim end = box_begin[a] + part[a];
    add(end, whole[a] - end);
    made = parts.size() == 1 ? std::move(parts[0]) : recipe::concat(std::move(parts), static_cast<int>(a));
  }
  return {made};
}
std::optional<Movement> commute_dynamic_update_slice(const OpView& op, std::span<const ValueId>, Slot slot,
                                                     const Perm& perm) {
  if (!op.ints(2) || (!slot.output && slot.index > 1)) return std::nullopt;
  Movement movement = movement_of(op, 1);
  movement.inputs[0] = movement.inputs[1] = movement.outputs[0] = perm;
  return movement;
}
void rewrite_dynamic_update_slice(Graph& graph, Op& op, const Movement& movement) {
  permute_entries(graph, op, 2, movement.outputs[0]);
}

// ---- REVERSE_V2: the kernel takes neighbouring axes only ----

std::vector<int> reversed_axes(const OpView& op) {
  std::vector<int> axes;
  for (int64_t axis : need_ints(op, 1, "axes")) axes.push_back(front_axis(op, axis, op.rank(0)));
  return axes;
}

RecipeRef reversed(RecipeRef data, const std::vector<int>& axes) {
  std::vector<int64_t> begin(data->dims.size(), 0), stride(data->dims.size(), 1);
  Shape size = data->dims;
  for (int axis : axes) {
    const auto a = static_cast<size_t>(axis);
    begin[a] = std::max<int64_t>(size[a] - 1, 0);
    stride[a] = -1;
  }
  return recipe::slice(std::move(data), begin, size, stride);
}

Types infer_reverse(const OpView& op) {
  need_inputs(op, 2);
  const std::vector<int> axes = reversed_axes(op);
  return {{op.dtype(0), op.shape(0), carried(op, 0, [&](RecipeRef data) { return reversed(std::move(data), axes); })}};
}
Recipes fold_reverse(const OpView& op) { return {reversed(op.recipe(0), reversed_axes(op))}; }

std::optional<Movement> commute_reverse(const OpView& op, std::span<const ValueId> outputs, Slot slot,
                                        const Perm& perm) {
  if (!op.ints(1) || perm.size() != op.shape(0).size()) return std::nullopt;
  std::vector<int> axes;
  for (int axis : reversed_axes(op)) axes.push_back(moved_axis(axis, perm));
  std::sort(axes.begin(), axes.end());
  for (size_t i = 1; i < axes.size(); ++i)
    if (axes[i] != axes[i - 1] + 1) return std::nullopt;
  return follow_first(op, outputs, slot, perm);
}
void rewrite_reverse(Graph& graph, Op& op, const Movement& movement) { move_axes(graph, op, 1, movement.inputs[0]); }

// ---- REVERSE_SEQUENCE: data, lengths ----

Types infer_reverse_sequence(const OpView& op) {
  need_inputs(op, 2);
  const auto& options = op.get<ReverseSequenceOptions>();
  const int sequence = front_axis(op, options.sequence_axis, op.rank(0));
  const int batch = front_axis(op, options.batch_axis, op.rank(0));
  if (sequence == batch) reject(op, "the batch axis is the sequence axis");
  if (op.rank(1) != 1) reject(op, fmt::format("the lengths have rank {}, not 1", op.rank(1)));
  agree(op, op.shape(1)[0], op.shape(0)[static_cast<size_t>(batch)], "batch and lengths");
  return {{op.dtype(0), op.shape(0), std::nullopt}};
}
void rewrite_reverse_sequence(Graph&, Op& op, const Movement& movement) {
  auto& options = std::get<ReverseSequenceOptions>(op.options);
  move_axis(options.sequence_axis, movement.inputs[0]);
  move_axis(options.batch_axis, movement.inputs[0]);
}

constexpr std::array kSliceRows = {
    moving(Kind::kSlice, {infer_slice, fold_slice, commute_slice, rewrite_slice, merge_sliced},
           {kData, kIndices, kIndices}),
    moving(Kind::kStridedSlice,
           {infer_strided_slice, fold_strided_slice, commute_strided_slice, rewrite_strided_slice, kNotMerged},
           {kData, kIndices32, kIndices32, kIndices32}),
    with(moving(Kind::kDynamicUpdateSlice,
                {infer_dynamic_update_slice, fold_dynamic_update_slice, commute_dynamic_update_slice,
                 rewrite_dynamic_update_slice, kNotMerged},
                {kData, kData, kIndices}),
         Memory::kMayOverwrite),
    moving(Kind::kReverseV2, {infer_reverse, fold_reverse, commute_reverse, rewrite_reverse, kNotMerged},
           {kData, kIndices32}),
    moving(Kind::kReverseSequence,
           {infer_reverse_sequence, kNotFolded, follow_first, rewrite_reverse_sequence, kNotMerged}, {kData, kIndices}),
};

}  // namespace

std::span<const Builtin> slice_builtins() { return kSliceRows; }

}  // namespace lowtide::core
