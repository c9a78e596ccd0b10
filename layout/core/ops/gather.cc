// SPDX-License-Identifier: Apache-2.0
// Ops that pick or place elements by index: GATHER, GATHER_ND, SCATTER_ND, EMBEDDING_LOOKUP, ONE_HOT, WHERE,
// UNIQUE, UNSORTED_SEGMENT_*, NON_MAX_SUPPRESSION_V4.
//
// The trap: LiteRT's indices are never negative (GATHER refuses them, GATHER_ND does not check), and SCATTER_ND adds
// the updates of an index that is given twice. Only ONE_HOT takes an index outside its range: the row is then all
// `off`.
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

void need_indices(const OpView& op, size_t input) {
  if (!stream::is_integer(op.dtype(input)))
    reject(op, fmt::format("input {} is {}, not an integer type", input, dtype_name(op.dtype(input))));
}

// ---- GATHER ----

struct GatherAxes {
  int axis, batch_dims;
};
GatherAxes gather_axes(const OpView& op) {
  const auto& options = op.get<GatherOptions>();
  GatherAxes out{front_axis(op, options.axis, op.rank(0)), options.batch_dims};
  if (out.batch_dims < 0) out.batch_dims += op.rank(1);
  if (out.batch_dims < 0 || out.batch_dims > out.axis || out.batch_dims > op.rank(1))
    reject(op, fmt::format("batch_dims {} does not fit axis {} and indices of rank {}", options.batch_dims, out.axis,
                           op.rank(1)));
  return out;
}

Shape gathered_shape(const OpView& op) {
  const auto [axis, batch_dims] = gather_axes(op);
  const Shape &data = op.shape(0), &indices = op.shape(1);
  Shape out(data.begin(), data.begin() + axis);
  for (size_t i = 0; i < static_cast<size_t>(batch_dims); ++i)
    out[i] = agree(op, data[i], indices[i], "batch dimensions");
  out.insert(out.end(), indices.begin() + batch_dims, indices.end());
  out.insert(out.end(), data.begin() + axis + 1, data.end());
  return out;
}

// The constant indices, when data can be picked by them while the graph is laid out.
std::optional<std::vector<int64_t>> picking(const OpView& op) {
  const auto [axis, batch_dims] = gather_axes(op);
  auto indices = op.ints(1);
  if (!indices || batch_dims != 0) return std::nullopt;
  const Dim extent = op.shape(0)[static_cast<size_t>(axis)];
  for (int64_t index : *indices)
    if (index < 0 || (!is_symbol(extent) && index >= extent))
      reject(op, fmt::format("index {} is outside an extent of {}", index, extent));
  return indices;
}

Types infer_gather(const OpView& op) {
  need_inputs(op, 2);
  need_indices(op, 1);
  Shape out = gathered_shape(op);
  std::optional<std::vector<Dim>> contents;
  if (stream::is_static(op.shape(0)))
    if (auto indices = picking(op))
      contents = carried(op, 0, [&](RecipeRef data) {
        return recipe::reshape(recipe::gather(std::move(data), gather_axes(op).axis, *indices), out);
      });
  return {{op.dtype(0), out, std::move(contents)}};
}

// Batches of a constant become one axis with the one that is picked from: their places are counted from its begin.
Recipes fold_batched(const OpView& op, size_t axis) {
  auto places = op.ints(1);
  if (!places || places->empty()) return {};
  const Shape& shape = op.shape(0);
  const auto batch_end = shape.begin() + static_cast<std::ptrdiff_t>(axis);
  int64_t batches = 1;
  for (auto extent = shape.begin(); extent != batch_end; ++extent) batches *= *extent;
  const int64_t extent = shape[axis], of_each = static_cast<int64_t>(places->size()) / batches;
  for (size_t i = 0; i < places->size(); ++i) {
    int64_t& place = (*places)[i];
    if (place < 0 || place >= extent) reject(op, fmt::format("index {} is outside an extent of {}", place, extent));
    place += static_cast<int64_t>(i) / of_each * extent;
  }
  Shape merged(batch_end, shape.end());
  merged[0] = batches * extent;
  RecipeRef rows = recipe::gather(recipe::reshape(op.recipe(0), std::move(merged)), 0, std::move(*places));
  return {recipe::reshape(std::move(rows), gathered_shape(op))};
}

Recipes fold_gather(const OpView& op) {
  const auto [axis, batch_dims] = gather_axes(op);
  if (batch_dims > 0) return axis == batch_dims ? fold_batched(op, static_cast<size_t>(axis)) : Recipes();
  auto indices = picking(op);
  if (!indices) return {};
  return {recipe::reshape(recipe::gather(op.recipe(0), gather_axes(op).axis, *indices), gathered_shape(op))};
}

// A list of indices keeps the axis, a single index drops it; a table of indices would put axes between the data's.
std::optional<Movement> commute_gather(const OpView& op, std::span<const ValueId>, Slot slot, const Perm& perm) {
  const auto [axis, batch_dims] = gather_axes(op);
  if (batch_dims != 0 || op.rank(1) > 1 || slot.index != 0) return std::nullopt;
  return dropping_axes(op, 1, slot, perm, op.rank(1) == 0 ? std::vector<int>{axis} : std::vector<int>{});
}
void rewrite_gather(Graph&, Op& op, const Movement& movement) {
  move_axis(std::get<GatherOptions>(op.options).axis, movement.inputs[0]);
}

// ---- GATHER_ND, SCATTER_ND, EMBEDDING_LOOKUP ----

// The last axis of the indices: how many of the data's axes one index names.
int index_depth(const OpView& op, size_t input, int rank) {
  if (op.rank(input) == 0) reject(op, "the indices are a scalar");
  const Dim depth = op.shape(input).back();
  if (is_symbol(depth))
    throw stream::Unsupported(
        fmt::format("the rank of the result of {} is known at run time only", kind_name(op.kind)));
  if (depth > rank) reject(op, fmt::format("an index of {} numbers exceeds the rank {}", depth, rank));
  return static_cast<int>(depth);
}

Types infer_gather_nd(const OpView& op) {
  need_inputs(op, 2);
  need_indices(op, 1);
  if (op.rank(0) == 0) reject(op, "the data is a scalar");
  const int depth = index_depth(op, 1, op.rank(0));
  Shape out(op.shape(1).begin(), op.shape(1).end() - 1);
  out.insert(out.end(), op.shape(0).begin() + depth, op.shape(0).end());
  return {{op.dtype(0), std::move(out), std::nullopt}};
}

// Constants that constant indices pick: the axes that an index names become one.
Recipes fold_gather_nd(const OpView& op) {
  const auto numbers = op.ints(1);
  const int named = index_depth(op, 1, op.rank(0));
  if (!numbers || numbers->empty() || named == 0) return {};
  const Shape& shape = op.shape(0);
  const auto depth = static_cast<size_t>(named);
  std::vector<int64_t> places(numbers->size() / depth, 0);
  for (size_t i = 0; i < numbers->size(); ++i) {
    const int64_t index = (*numbers)[i], extent = shape[i % depth];
    if (index < 0 || index >= extent) reject(op, fmt::format("index {} is outside an extent of {}", index, extent));
    int64_t& place = places[i / depth];
    place = place * extent + index;
  }
  Shape merged(shape.begin() + named - 1, shape.end());
  merged[0] = 1;
  for (size_t axis = 0; axis < depth; ++axis) merged[0] *= shape[axis];
  RecipeRef rows = recipe::gather(recipe::reshape(op.recipe(0), std::move(merged)), 0, std::move(places));
  return {recipe::reshape(std::move(rows), infer_gather_nd(op)[0].shape)};
}

Types infer_scatter_nd(const OpView& op) {
  need_inputs(op, 3);
  need_indices(op, 0);
  Shape out = listed_shape(op, 2);
  const int depth = index_depth(op, 0, static_cast<int>(out.size()));
  const Shape &indices = op.shape(0), &updates = op.shape(1);
  if (updates.size() + static_cast<size_t>(depth) + 1 != indices.size() + out.size())
    reject(op, fmt::format("updates of rank {} do not fit indices of rank {} into a tensor of rank {}", updates.size(),
                           indices.size(), out.size()));
  for (size_t i = 0; i < updates.size(); ++i) {
    const size_t outer = indices.size() - 1;
    agree(op, updates[i], i < outer ? indices[i] : out[static_cast<size_t>(depth) + i - outer],
          "dimensions of the updates");
  }
  return {{op.dtype(1), std::move(out), std::nullopt}};
}

Types infer_embedding_lookup(const OpView& op) {
  need_inputs(op, 2);
  need_indices(op, 0);
  if (op.rank(0) != 1 || op.rank(1) < 2) reject(op, "the inputs are not a list and a table of rank 2 or more");
  Shape out = op.shape(1);
  out[0] = op.shape(0)[0];
  return {{op.dtype(1), std::move(out), std::nullopt}};
}

// ---- UNSORTED_SEGMENT_PROD, _MAX, _SUM, _MIN: data, segment of each row (i32), number of segments ----

Types infer_unsorted_segment(const OpView& op) {
  need_inputs(op, 3);
  need_indices(op, 1);
  if (op.rank(1) > op.rank(0))
    reject(op, fmt::format("the segments have rank {}, the data {}", op.rank(1), op.rank(0)));
  for (size_t a = 0; a < op.shape(1).size(); ++a) agree(op, op.shape(1)[a], op.shape(0)[a], "data and segments");
  const std::vector<Dim>* count = op.contents(2);
  if (count && count->size() != 1)
    reject(op, fmt::format("the number of segments has {} elements, not 1", count->size()));
  Shape out(op.shape(0).begin() + op.rank(1), op.shape(0).end());
  out.insert(out.begin(), count ? (*count)[0] : op.symbols().fresh("segments"));
  return {{op.dtype(0), std::move(out), std::nullopt}};
}

// ---- ONE_HOT: indices, depth, on, off ----

int one_hot_axis(const OpView& op) { return front_axis(op, op.get<OneHotOptions>().axis, op.rank(0) + 1); }

Types infer_one_hot(const OpView& op) {
  need_inputs(op, 4);
  need_indices(op, 0);
  if (op.dtype(2) != op.dtype(3)) reject(op, "the two values' dtypes differ");
  const std::vector<Dim>* depth = op.contents(1);
  if (depth && depth->size() != 1) reject(op, fmt::format("the depth has {} elements, not 1", depth->size()));
  const Dim extent = depth ? (*depth)[0] : op.symbols().fresh("depth");
  if (extent < 0 && !is_symbol(extent)) reject(op, fmt::format("depth {} is negative", extent));
  Shape out = op.shape(0);
  out.insert(out.begin() + one_hot_axis(op), extent);
  return {{op.dtype(2), std::move(out), std::nullopt}};
}

// Small ones, as exporters compute repeats by them; a larger one takes less room as an op.
Recipes fold_one_hot(const OpView& op) {
  const auto depth = op.ints(1);
  const Shape shape = infer_one_hot(op)[0].shape;
  if (!depth || !stream::is_static(shape) || stream::element_count(shape) > stream::kSmallElements) return {};
  const auto axis = static_cast<size_t>(one_hot_axis(op));
  Shape spread = op.shape(0), along(shape.size(), 1);
  spread.insert(spread.begin() + static_cast<std::ptrdiff_t>(axis), 1);
  along[axis] = shape[axis];
  RecipeRef places = recipe::reshape(recipe::iota(0, 1, op.dtype(0), shape[axis]), std::move(along));
  RecipeRef is_on = recipe::binary(stream::Binary::kEqual, recipe::reshape(op.recipe(0), std::move(spread)), places);
  return {recipe::broadcast(recipe::select(is_on, recipe::reshape(op.recipe(2), {}), recipe::reshape(op.recipe(3), {})),
                            shape)};
}

std::optional<Movement> commute_one_hot(const OpView& op, std::span<const ValueId>, Slot slot, const Perm& perm) {
  if (slot.index != 0) return std::nullopt;
  return adding_axes(op, 1, slot, perm, {one_hot_axis(op)});
}
void rewrite_one_hot(Graph&, Op& op, const Movement& movement) {
  move_axis(std::get<OneHotOptions>(op.options).axis, movement.outputs[0]);
}

// ---- WHERE (one row of indices for each true element), UNIQUE (in order of appearance) ----

// The rows for known elements: coordinates of those that are not 0.
std::optional<std::vector<Dim>> true_places(const OpView& op) {
  auto known = op.ints(0);
  if (!known || !stream::is_static(op.shape(0)) || op.rank(0) == 0) return std::nullopt;
  const Shape& shape = op.shape(0);
  std::vector<Dim> places;
  std::vector<Dim> at(shape.size(), 0);
  for (int64_t value : *known) {
    if (value != 0) places.insert(places.end(), at.begin(), at.end());
    for (size_t a = shape.size(); a-- > 0 && ++at[a] == shape[a];) at[a] = 0;
  }
  return places;
}

Types infer_where(const OpView& op) {
  need_inputs(op, 1);
  if (auto places = true_places(op)) {
    const auto count = static_cast<Dim>(places->size()) / op.rank(0);
    return {{DType::kInt64, {count, op.rank(0)}, std::move(places)}};
  }
  return {{DType::kInt64, {op.symbols().fresh("where"), op.rank(0)}, std::nullopt}};
}

Types infer_unique(const OpView& op) {
  need_inputs(op, 1);
  if (op.rank(0) != 1) reject(op, fmt::format("input 0 has rank {}, not 1", op.rank(0)));
  return {{op.dtype(0), {op.symbols().fresh("unique")}, std::nullopt},
          {op.get<IndexOptions>().dtype, op.shape(0), std::nullopt}};
}

// ---- NON_MAX_SUPPRESSION_V4: boxes [N, 4], scores [N], most, overlap, lowest score; gives `most` indices, of which
//      those behind the selected ones are 0, and the number of selected ones ----

Types infer_non_max_suppression(const OpView& op) {
  need_inputs(op, 5);
  if (op.rank(0) != 2 || op.shape(0)[1] != 4 || op.rank(1) != 1)
    reject(op, "the inputs are not boxes [N,4] and scores [N]");
  agree(op, op.shape(0)[0], op.shape(1)[0], "boxes and scores");
  for (size_t i = 2; i < 5; ++i)
    if (op.rank(i) != 0) reject(op, fmt::format("input {} has rank {}, not 0", i, op.rank(i)));
  const std::vector<Dim>* most = op.contents(2);
  const Dim length = most ? (*most)[0] : op.symbols().fresh("boxes");
  if (length < 0 && !is_symbol(length)) reject(op, fmt::format("the number of boxes, {}, is negative", length));
  return {{DType::kInt32, {length}, std::nullopt}, {DType::kInt32, {}, std::nullopt}};
}

// An op that moves with no permutation and has no constants to fold.
constexpr RowFunctions inferred_only(Infer infer) { return {infer, kNotFolded, kFixed, kNothingToRewrite, kNotMerged}; }

// Data, the segment of each of its rows, the number of segments.
constexpr Builtin unsorted_segment(Kind kind) {
  return computing(kind, inferred_only(infer_unsorted_segment), {kData, kIndices32, kIndices32}, {kData});
}

constexpr std::array kGatherRows = {
    reading_exactly(moving(Kind::kGather, {infer_gather, fold_gather, commute_gather, rewrite_gather, kNotMerged},
                           {kData, kIndices}),
                    0),
    reading_exactly(moving(Kind::kGatherNd, {infer_gather_nd, fold_gather_nd, kFixed, kNothingToRewrite, kNotMerged},
                           {kData, kIndices}),
                    0),
    with(with(computing(Kind::kScatterNd, inferred_only(infer_scatter_nd), {kIndices32, kData, kIndices32}, {kData}),
              LimitedRank::kResult),
         Memory::kMayOverwrite),
    moving(Kind::kEmbeddingLookup, inferred_only(infer_embedding_lookup), {kIndices32, kData}),
    with(moving(Kind::kOneHot, {infer_one_hot, fold_one_hot, commute_one_hot, rewrite_one_hot, kNotMerged},
                {kIndices, kIndices, kData, kData}),
         LimitedRank::kFirstInput),
    unsorted_segment(Kind::kUnsortedSegmentProd),
    unsorted_segment(Kind::kUnsortedSegmentMax),
    unsorted_segment(Kind::kUnsortedSegmentSum),
    unsorted_segment(Kind::kUnsortedSegmentMin),
    computing(Kind::kNonMaxSuppressionV4, inferred_only(infer_non_max_suppression),
              {kData, kData, kIndices32, kData, kData}, {kOther, kOther}),
    computing(Kind::kWhere, inferred_only(infer_where), {kData}, {kOther}),
    computing(Kind::kUnique, inferred_only(infer_unique), {kData}, {kData, kOther}),
};

}  // namespace

std::span<const Builtin> gather_builtins() { return kGatherRows; }

}  // namespace lowtide::core
