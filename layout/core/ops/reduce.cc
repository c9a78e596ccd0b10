// SPDX-License-Identifier: Apache-2.0
// Ops that work along axes: reductions, arg-max, cumulative sums, softmax, top-k.
//
// The trap: reductions name their axes in a constant input; SOFTMAX and TOPK_V2 always work on the last axis.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "layout/core/ops/axes.h"
#include "layout/core/ops/checks.h"
#include "layout/core/ops/rows.h"
#include "stream/error.h"

namespace lowtide::core {
namespace {

namespace recipe = stream::recipe;

// The constant axes of input `slot`, counted from the front; a missing constant is a bug of the lowering.
std::vector<int> axes_of(const OpView& op, size_t slot) {
  auto given = op.has(slot) ? op.ints(slot) : std::nullopt;
  if (!given) reject(op, "the axes are not constant");
  std::vector<int> axes;
  // LiteRT does not look at the axes of a scalar.
  if (op.rank(0) == 0) return axes;
  for (int64_t axis : *given) axes.push_back(front_axis(op, axis, op.rank(0)));
  return axes;
}

Shape without(const Shape& shape, const std::vector<int>& axes, bool keep) {
  Shape out;
  for (int i = 0; i < static_cast<int>(shape.size()); ++i) {
    const bool reduced = std::count(axes.begin(), axes.end(), i) > 0;
    if (!reduced)
      out.push_back(shape[static_cast<size_t>(i)]);
    else if (keep)
      out.push_back(1);
  }
  return out;
}

// Axes that are known at run time only. Of the shape that is left only the rank is known; the lowering sees to it that
// no axis is named twice where the rank depends on it.
std::vector<TensorType> infer_reduce_at_run_time(const OpView& op) {
  const Shape& axes = op.shape(1);
  if (axes.size() != 1 || !stream::is_static(axes))
    throw stream::Unsupported("the number of reduced axes is known at run time only", "make the axes an initializer");
  const auto dropped = op.get<ReduceOptions>().keep_dims ? size_t{0} : static_cast<size_t>(axes[0]);
  if (dropped > op.shape(0).size())
    throw stream::Unsupported(
        fmt::format("{} axes that are known at run time only are more than the {} that there are", dropped, op.rank(0)),
        "make the axes an initializer");
  Shape out(op.shape(0).size() - dropped);
  for (Dim& dim : out) dim = op.symbols().fresh("reduced");
  return {{op.dtype(0), out}};
}

std::vector<TensorType> infer_reduce(const OpView& op) {
  if (op.has(1) && !op.ints(1)) return infer_reduce_at_run_time(op);
  std::vector<int> axes = axes_of(op, 1);
  TensorType out{op.dtype(0), without(op.shape(0), axes, op.get<ReduceOptions>().keep_dims)};
  const bool multiplies = op.kind == Kind::kReduceProd;
  if (!multiplies && op.kind != Kind::kSum) return {out};
  if (const auto* known = op.contents(0); known && op.rank(0) == 1 && axes.size() == 1)
    out.contents = unless_overflow([&] {
      Dim made = multiplies ? 1 : 0;
      for (Dim dim : *known) made = multiplies ? op.symbols().mul(made, dim) : op.symbols().add(made, dim);
      return std::vector<Dim>{made};
    });
  return {out};
}

std::vector<TensorType> infer_arg(const OpView& op) {
  std::vector<int> axes = axes_of(op, 1);
  if (axes.size() != 1) reject(op, fmt::format("{} axes are given, 1 is needed", axes.size()));
  return {{op.get<IndexOptions>().dtype, without(op.shape(0), axes, false)}};
}

std::vector<TensorType> infer_same(const OpView& op) { return {{op.dtype(0), op.shape(0)}}; }

std::vector<TensorType> infer_cumsum(const OpView& op) {
  if (op.ints(1) && axes_of(op, 1).size() != 1) reject(op, "it needs one axis");
  return infer_same(op);
}

std::vector<TensorType> infer_softmax(const OpView& op) {
  if (op.rank(0) < 1) reject(op, "a scalar has no last axis");
  return infer_same(op);
}

std::vector<TensorType> infer_top_k(const OpView& op) {
  if (op.rank(0) < 1) reject(op, "a scalar has no last axis");
  Shape out = op.shape(0);
  const auto* k = op.contents(1);
  out.back() = k && k->size() == 1 ? (*k)[0] : op.symbols().fresh("top_k");
  if (!is_symbol(out.back()) && out.back() < 0) reject(op, fmt::format("k {} is negative", out.back()));
  if (!is_symbol(out.back()) && stream::is_static(op.shape(0).back()) && out.back() > op.shape(0).back())
    reject(op, fmt::format("k {} is larger than the axis, {}", out.back(), op.shape(0).back()));
  const auto* index = std::get_if<IndexOptions>(&op.options);
  return {{op.dtype(0), out}, {index ? index->dtype : DType::kInt32, out}};
}

template <stream::Reduction kOp>
std::vector<RecipeRef> fold_reduce(const OpView& op) {
  std::vector<int> axes = axes_of(op, 1);
  RecipeRef kept = recipe::reduce(kOp, op.recipe(0), axes);
  return {recipe::reshape(kept, without(op.shape(0), axes, op.get<ReduceOptions>().keep_dims))};
}

// Standardised weights (minus their mean, divided by their deviation) are constants again, of any size.
std::vector<RecipeRef> fold_mean(const OpView& op) {
  if (op.dtype(0) != DType::kFloat32 && op.dtype(0) != DType::kFloat64) return {};
  const std::vector<RecipeRef> sum = fold_reduce<stream::Reduction::kSum>(op);
  const double count = static_cast<double>(op.recipe(0)->elements()) / static_cast<double>(sum[0]->elements());
  return {recipe::binary(stream::Binary::kDiv, sum[0], recipe::fill_value(count, op.dtype(0), {}))};
}

// Scores of learned queries with each other, as in DETR's first layer of the decoder, are constants.
std::vector<RecipeRef> fold_softmax(const OpView& op) {
  if (op.dtype(0) != DType::kFloat32 || op.in(0).quantization || op.recipe(0)->elements() == 0) return {};
  const std::vector<int> last = {op.rank(0) - 1};
  const RecipeRef highest = recipe::reduce(stream::Reduction::kMax, op.recipe(0), last);
  const RecipeRef beta = recipe::fill_value(op.get<SoftmaxOptions>().beta, DType::kFloat32, {});
  const RecipeRef below = recipe::binary(stream::Binary::kSub, op.recipe(0), highest);
  const RecipeRef powers = recipe::unary(stream::Unary::kExp, recipe::binary(stream::Binary::kMul, below, beta));
  return {recipe::binary(stream::Binary::kDiv, powers, recipe::reduce(stream::Reduction::kSum, powers, last))};
}

std::optional<Movement> commute_dropping(const OpView& op, Slot slot, const Perm& perm, bool keep) {
  if (!op.ints(1) || (!slot.output && slot.index != 0)) return std::nullopt;
  return dropping_axes(op, 1, slot, perm, keep ? std::vector<int>{} : axes_of(op, 1));
}

std::optional<Movement> commute_reduce(const OpView& op, std::span<const ValueId>, Slot slot, const Perm& perm) {
  return commute_dropping(op, slot, perm, op.get<ReduceOptions>().keep_dims);
}
std::optional<Movement> commute_arg(const OpView& op, std::span<const ValueId>, Slot slot, const Perm& perm) {
  return commute_dropping(op, slot, perm, false);
}

// The axes input; a reduction to the same axes may be moved without its input.
void rewrite_axes(Graph& graph, Op& op, const Movement& movement) {
  if (!movement.inputs[0].empty()) move_axes(graph, op, 1, movement.inputs[0]);
}

// CUMSUM: shape is kept, the axis moves.
std::optional<Movement> commute_cumsum(const OpView& op, std::span<const ValueId> outputs, Slot slot,
                                       const Perm& perm) {
  if ((!slot.output && slot.index != 0) || !op.ints(1)) return std::nullopt;
  return follow_first(op, outputs, {false, 0}, perm);
}

bool merge_reduced(AxisMerger& m) {
  auto axes = m.ints(1);
  const auto rank = static_cast<int64_t>(m.in(0).size());
  if (!axes || rank == 0) return false;
  AxisMarks marks(static_cast<size_t>(rank), 0);
  for (int64_t axis : *axes) marks[static_cast<size_t>(axis < 0 ? axis + rank : axis)] = 1;
  const std::vector<int64_t> reduced = marks;
  for (size_t i = 0; i < marks.size(); ++i)
    if (m.in(0)[i] == 1) marks[i] = kAny;
  const AxisGroups groups = group_axes(marks);
  std::vector<int64_t> is_reduced(static_cast<size_t>(groups.count), 0);
  for (size_t i = 0; i < marks.size(); ++i)
    if (reduced[i] && marks[i] != kAny) is_reduced[groups.group_of(i)] = 1;
  m.merge_input(0, groups);
  std::vector<int64_t> merged_axes;
  Shape left;
  for (size_t g = 0; g < is_reduced.size(); ++g) {
    if (is_reduced[g])
      merged_axes.push_back(static_cast<int64_t>(g));
    else
      left.push_back(m.in(0)[g]);
  }
  m.op.inputs[1] = m.b.i32(merged_axes).id;
  m.op.options = ReduceOptions{false};
  m.replace_output(0, std::move(left));
  return true;
}

constexpr Builtin reduction(Kind kind, Fold fold, Numbers numbers, Integers integers = Integers::kNone) {
  return with(with(computing(kind, {infer_reduce, fold, commute_reduce, rewrite_axes, merge_reduced},
                             {kData, kIndices32}, {kData}),
                   numbers),
              integers);
}
constexpr Builtin arg(Kind kind) {
  return with(
      computing(kind, {infer_arg, kNotFolded, commute_arg, rewrite_axes, kNotMerged}, {kData, kIndices}, {kOther}),
      Integers::kChosen);
}
constexpr Builtin softmax(Kind kind, Fold fold) {
  return with(
      computing(kind, {infer_softmax, fold, follow_but_last, kNothingToRewrite, merge_all_but_last}, {kData}, {kData}),
      Memory::kMayOverwrite);
}
constexpr Builtin cumsum(Kind kind) {
  return with(with(computing(kind, {infer_cumsum, kNotFolded, commute_cumsum, rewrite_axes, kNotMerged},
                             {kData, kIndices32}, {kData}),
                   Numbers::kSignFree),
              Memory::kMayOverwrite);
}
constexpr Builtin top_k(Kind kind) {
  return with(computing(kind, {infer_top_k, kNotFolded, follow_but_last, kNothingToRewrite, kNotMerged},
                        {kData, kIndices32}, {kData, kOther}),
              Numbers::kOrdered);
}

using R = stream::Reduction;
constexpr std::array kReduceRows = {
    reduction(Kind::kSum, fold_reduce<R::kSum>, Numbers::kSignFree),
    reduction(Kind::kMean, fold_mean, Numbers::kComputed, Integers::kRescaled),
    reduction(Kind::kReduceMax, fold_reduce<R::kMax>, Numbers::kOrdered, Integers::kChosen),
    reduction(Kind::kReduceMin, fold_reduce<R::kMin>, Numbers::kOrdered, Integers::kChosen),
    reduction(Kind::kReduceProd, fold_reduce<R::kProd>, Numbers::kSignFree),
    reduction(Kind::kReduceAny, kNotFolded, Numbers::kComputed),
    reduction(Kind::kReduceAll, kNotFolded, Numbers::kComputed),
    arg(Kind::kArgMax),
    arg(Kind::kArgMin),
    cumsum(Kind::kCumsum),
    with(softmax(Kind::kSoftmax, fold_softmax), Integers::kFixed8),
    with(softmax(Kind::kLogSoftmax, kNotFolded), Integers::kFixed8),
    top_k(Kind::kTopkV2),
};

}  // namespace

std::span<const Builtin> reduce_builtins() { return kReduceRows; }

}  // namespace lowtide::core
