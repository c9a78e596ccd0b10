// SPDX-License-Identifier: Apache-2.0
// Ops that make or repeat elements: FILL, RANGE, TILE, BROADCAST_TO, BROADCAST_ARGS.
//
// The trap: RANGE of floats adds the step again and again, so its last bits depend on the order; only integers are
// folded.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "layout/core/ops/axes.h"
#include "layout/core/ops/rows.h"
#include "stream/error.h"
#include "stream/recipe/recipe_reader.h"

namespace lowtide::core {
namespace {

namespace recipe = stream::recipe;
using Types = std::vector<TensorType>;
using Recipes = std::vector<RecipeRef>;

// ---- FILL: dims, a scalar ----

Types infer_fill(const OpView& op) {
  need_inputs(op, 2);
  if (op.rank(1) != 0) reject(op, fmt::format("the value has rank {}, not 0", op.rank(1)));
  Shape out = listed_shape(op, 0);
  std::optional<std::vector<Dim>> contents;
  const std::vector<Dim>* value = op.contents(1);
  if (value && stream::is_static(out) && stream::element_count(out) <= kContentsElements)
    contents.emplace(stream::element_count(out), (*value)[0]);
  return {{op.dtype(1), std::move(out), std::move(contents)}};
}
Recipes fold_fill(const OpView& op) {
  Shape out = infer_fill(op)[0].shape;
  if (!stream::is_static(out)) return {};
  return {recipe::fill(stream::evaluate(op.recipe(1), op.graph.budget), op.dtype(1), std::move(out))};
}
std::optional<Movement> commute_fill(const OpView& op, std::span<const ValueId>, Slot slot, const Perm& perm) {
  if (!slot.output || !op.ints(0)) return std::nullopt;
  Movement movement = movement_of(op, 1);
  movement.outputs[0] = perm;
  return movement;
}
void rewrite_fill(Graph& graph, Op& op, const Movement& movement) {
  permute_entries(graph, op, 0, movement.outputs[0]);
}

// ---- RANGE: start, limit, delta ----

std::optional<Dim> ints_in_range(const OpView& op) {
  const std::vector<Dim>*start = op.contents(0), *limit = op.contents(1), *delta = op.contents(2);
  if (!start || !limit || !delta || is_symbol((*delta)[0])) return std::nullopt;
  const Dim step = (*delta)[0];
  if (step == 0) reject(op, "the step is 0");
  Symbols& symbols = op.symbols();
  Dim count = step > 0 ? symbols.ceil_div(symbols.sub((*limit)[0], (*start)[0]), step)
                       : symbols.ceil_div(symbols.sub((*start)[0], (*limit)[0]), -step);
  return symbols.is_not_negative(count, op.graph.extents) ? count : symbols.max(count, 0);
}

Types infer_range(const OpView& op) {
  need_inputs(op, 3);
  for (size_t i = 0; i < 3; ++i) {
    if (op.rank(i) != 0) reject(op, fmt::format("input {} has rank {}, not 0", i, op.rank(i)));
    if (op.dtype(i) != op.dtype(0)) reject(op, "the inputs' dtypes differ");
  }
  if (!stream::is_integer(op.dtype(0))) {
    auto start = op.graph.numbers(op.inputs[0]), limit = op.graph.numbers(op.inputs[1]),
         delta = op.graph.numbers(op.inputs[2]);
    if (!start || !limit || !delta) return {{op.dtype(0), {op.symbols().fresh("range")}, std::nullopt}};
    if ((*delta)[0] == 0) reject(op, "the step is 0");
    // In the kernel's precision: the quotient decides how many elements there are.
    const float quotient =
        (static_cast<float>((*limit)[0]) - static_cast<float>((*start)[0])) / static_cast<float>((*delta)[0]);
    const double count = std::max(0.0, std::ceil(static_cast<double>(quotient)));
    if (!(count < 2147483648.0)) reject(op, "too many elements");
    return {{op.dtype(0), {static_cast<Dim>(count)}, std::nullopt}};
  }
  auto count = ints_in_range(op);
  if (!count) return {{op.dtype(0), {op.symbols().fresh("range")}, std::nullopt}};
  std::optional<std::vector<Dim>> contents;
  if (!is_symbol(*count) && static_cast<uint64_t>(*count) <= kContentsElements)
    contents = unless_overflow([&] {
      const Dim start = (*op.contents(0))[0], step = (*op.contents(2))[0];
      std::vector<Dim> listed;
      for (Dim i = 0; i < *count; ++i) listed.push_back(op.symbols().add(start, op.symbols().mul(i, step)));
      return listed;
    });
  return {{op.dtype(0), {*count}, std::move(contents)}};
}

Recipes fold_range(const OpView& op) {
  if (!stream::is_integer(op.dtype(0))) return {};
  auto count = ints_in_range(op);
  auto start = op.ints(0), delta = op.ints(2);
  if (!count || is_symbol(*count) || !start || !delta) return {};
  return {recipe::iota((*start)[0], (*delta)[0], op.dtype(0), *count)};
}

// ---- TILE: data, repeats ----

// [d0, d1] repeated: [1, d0, 1, d1] broadcast to [r0, d0, r1, d1], and joined.
RecipeRef tiled(RecipeRef data, const std::vector<int64_t>& repeats) {
  Shape apart, wide, joined;
  for (size_t a = 0; a < repeats.size(); ++a) {
    const Dim extent = data->dims[a];
    apart.insert(apart.end(), {1, extent});
    wide.insert(wide.end(), {repeats[a], extent});
    joined.push_back(
        static_cast<Dim>(stream::checked_mul(static_cast<uint64_t>(repeats[a]), static_cast<uint64_t>(extent))));
  }
  return recipe::reshape(recipe::broadcast(recipe::reshape(std::move(data), apart), wide), joined);
}

Types infer_tile(const OpView& op) {
  need_inputs(op, 2);
  if (op.rank(1) != 1 || (!is_symbol(op.shape(1)[0]) && op.shape(1)[0] != op.rank(0)))
    reject(op, fmt::format("the repeats have shape {}, not [{}]", stream::to_string(op.shape(1)), op.rank(0)));
  const std::vector<Dim>* repeats = op.contents(1);
  Shape out;
  for (size_t a = 0; a < op.shape(0).size(); ++a) {
    if (repeats && (*repeats)[a] < 0 && !is_symbol((*repeats)[a]))
      reject(op, fmt::format("axis {} is repeated {} times", a, (*repeats)[a]));
    out.push_back(repeats ? op.symbols().mul(op.shape(0)[a], (*repeats)[a]) : op.symbols().fresh("tile"));
  }
  std::optional<std::vector<Dim>> contents;
  if (auto known = op.ints(1);
      known && stream::is_static(op.shape(0)) && stream::element_count(out) <= kContentsElements)
    contents = carried(op, 0, [&](RecipeRef data) { return tiled(std::move(data), *known); });
  return {{op.dtype(0), std::move(out), std::move(contents)}};
}
Recipes fold_tile(const OpView& op) {
  auto repeats = op.ints(1);
  return repeats ? Recipes{tiled(op.recipe(0), *repeats)} : Recipes{};
}
std::optional<Movement> commute_tile(const OpView& op, std::span<const ValueId> outputs, Slot slot, const Perm& perm) {
  if (!op.ints(1)) return std::nullopt;
  return follow_first(op, outputs, slot, perm);
}
void rewrite_tile(Graph& graph, Op& op, const Movement& movement) { permute_entries(graph, op, 1, movement.inputs[0]); }

bool merge_tiled(AxisMerger& m) {
  auto times = m.ints(1);
  if (!times) return false;
  AxisMarks marks;
  for (size_t i = 0; i < times->size(); ++i) marks.push_back((*times)[i] == 1 ? 0 : kAlone + static_cast<int64_t>(i));
  const AxisGroups groups = group_axes(marks);
  std::vector<int64_t> fewer(static_cast<size_t>(groups.count), 1);
  for (size_t i = 0; i < marks.size(); ++i) fewer[groups.group_of(i)] *= (*times)[i];
  m.merge_input(0, groups);
  m.op.inputs[1] = m.b.i32(fewer).id;
  m.merge_output(0, groups);
  return true;
}

// ---- BROADCAST_TO (data, shape), BROADCAST_ARGS (two shapes) ----

Types infer_broadcast_to(const OpView& op) {
  need_inputs(op, 2);
  Shape out = listed_shape(op, 1);
  const Shape& in = op.shape(0);
  if (in.size() > out.size()) reject(op, fmt::format("rank {} cannot be broadcast to rank {}", in.size(), out.size()));
  for (size_t i = 0; i < in.size(); ++i) {
    Dim& wide = out[out.size() - in.size() + i];
    if (in[i] != 1 && !is_symbol(in[i])) wide = agree(op, wide, in[i], "dimensions");
  }
  std::optional<std::vector<Dim>> contents;
  if (stream::is_static(out) && stream::element_count(out) <= kContentsElements)
    contents = carried(op, 0, [&](RecipeRef data) { return recipe::broadcast(std::move(data), out); });
  return {{op.dtype(0), out, std::move(contents)}};
}
Recipes fold_broadcast_to(const OpView& op) {
  Shape out = infer_broadcast_to(op)[0].shape;
  return stream::is_static(out) ? Recipes{recipe::broadcast(op.recipe(0), std::move(out))} : Recipes{};
}
// Data of fewer axes is lifted; a scalar stays as it is.
std::optional<Movement> commute_broadcast_to(const OpView& op, std::span<const ValueId> outputs, Slot slot,
                                             const Perm& perm) {
  const int rank = op.graph.at(outputs[0]).rank();
  if (!op.ints(1) || static_cast<int>(perm.size()) != rank || slot.index != 0) return std::nullopt;
  Movement movement = movement_of(op, 1);
  movement.outputs[0] = perm;
  if (op.rank(0) != 0) movement.inputs[0] = perm;
  return movement;
}
void rewrite_broadcast_to(Graph& graph, Op& op, const Movement& movement) {
  permute_entries(graph, op, 1, movement.outputs[0]);
}

bool merge_broadcast(AxisMerger& m) {
  if (!m.broadcasting(1, 0)) return false;
  m.op.inputs[1] = m.b.dims(m.out()).id;
  return true;
}

Types infer_broadcast_args(const OpView& op) {
  need_inputs(op, 2);
  if (op.rank(0) != 1 || op.rank(1) != 1 || op.dtype(0) != op.dtype(1))
    reject(op, "the inputs are not two lists of one dtype");
  const Dim ranks[] = {op.shape(0)[0], op.shape(1)[0]};
  if (is_symbol(ranks[0]) || is_symbol(ranks[1]))
    throw stream::Unsupported("the rank of a broadcast is known at run time only");
  std::optional<std::vector<Dim>> out;
  const std::vector<Dim>*a = op.contents(0), *b = op.contents(1);
  if (a && b) {
    out.emplace(static_cast<size_t>(std::max(ranks[0], ranks[1])), 1);
    for (size_t back = 1; back <= out->size() && out; ++back) {
      const Dim x = back <= a->size() ? (*a)[a->size() - back] : 1, y = back <= b->size() ? (*b)[b->size() - back] : 1;
      Dim& wide = (*out)[out->size() - back];
      if (x == 1 || y == 1 || x == y) {
        wide = x == 1 ? y : x;
      } else if (!is_symbol(x) && !is_symbol(y)) {
        reject(op, fmt::format("{} and {} do not broadcast", x, y));
      } else if (!is_symbol(x) || !is_symbol(y)) {
        wide = is_symbol(x) ? y : x;  // a number beside a symbol: the symbol is that number or 1
      } else {
        out.reset();
        break;
      }
    }
  }
  return {{op.dtype(0), {std::max(ranks[0], ranks[1])}, std::move(out)}};
}

constexpr std::array kFillRows = {
    with(moving(Kind::kFill, {infer_fill, fold_fill, commute_fill, rewrite_fill, kNotMerged}, {kIndices, kData}),
         LimitedRank::kResult),
    computing(Kind::kRange, {infer_range, fold_range, kFixed, kNothingToRewrite, kNotMerged}, {kData, kData, kData},
              {kData}),
    moving(Kind::kTile, {infer_tile, fold_tile, commute_tile, rewrite_tile, merge_tiled}, {kData, kIndices}),
    moving(Kind::kBroadcastTo,
           {infer_broadcast_to, fold_broadcast_to, commute_broadcast_to, rewrite_broadcast_to, merge_broadcast},
           {kData, kIndices}),
    computing(Kind::kBroadcastArgs, {infer_broadcast_args, kNotFolded, kFixed, kNothingToRewrite, kNotMerged},
              {kIndices, kIndices}, {kIndices}),
};

}  // namespace

std::span<const Builtin> fill_builtins() { return kFillRows; }

}  // namespace lowtide::core
