// SPDX-License-Identifier: Apache-2.0
// Traits of the ops that work along axes: reductions, arg-max, cumulative sums, softmax, top-k.
//
// The trap: MEAN and its kin name their axes in a constant input, softmax and top-k always mean the last axis.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "layout/core/ops/checks.h"
#include "stream/error.h"

namespace lowtide::core {
namespace {

namespace recipe = stream::recipe;

// The constant axes of input `slot`, normalised; a missing constant is a bug of the lowering.
std::vector<int> axes_of(const OpView& op, size_t slot) {
  auto given = op.has(slot) ? op.ints(slot) : std::nullopt;
  if (!given) reject(op, "its axes are not constant");
  std::vector<int> axes;
  for (int64_t axis : *given) {
    if (axis < -op.rank(0) || axis >= op.rank(0)) reject(op, fmt::format("axis {} in rank {}", axis, op.rank(0)));
    axes.push_back(static_cast<int>(axis < 0 ? axis + op.rank(0) : axis));
  }
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

// Axes that only the run knows: what is left of the shape is not known either, only its rank, since no axis is named
// twice.
std::vector<TensorType> infer_reduce_at_run_time(const OpView& op) {
  const Shape& axes = op.shape(1);
  if (axes.size() != 1 || !stream::is_static(axes))
    throw stream::Unsupported("how many axes are reduced is known at run time only", "make the axes an initializer");
  const auto dropped = op.get<ReduceOptions>().keep_dims ? size_t{0} : static_cast<size_t>(axes[0]);
  if (dropped > op.shape(0).size()) reject(op, fmt::format("{} axes of rank {}", dropped, op.rank(0)));
  Shape out(op.shape(0).size() - dropped);
  for (Dim& dim : out) dim = op.symbols().fresh("reduced");
  return {{op.dtype(0), out}};
}

std::vector<TensorType> infer_reduce(const OpView& op) {
  if (op.has(1) && !op.ints(1)) return infer_reduce_at_run_time(op);
  std::vector<int> axes = axes_of(op, 1);
  TensorType out{op.dtype(0), without(op.shape(0), axes, op.get<ReduceOptions>().keep_dims)};
  if (const auto* known = op.contents(0); known && op.rank(0) == 1 && axes.size() == 1) {
    Symbols& symbols = op.symbols();
    Dim made = op.kind == Kind::kReduceProd ? 1 : 0;
    if (op.kind == Kind::kReduceProd)
      for (Dim dim : *known) made = symbols.mul(made, dim);
    else if (op.kind == Kind::kSum)
      for (Dim dim : *known) made = symbols.add(made, dim);
    else
      return {out};
    out.contents = std::vector<Dim>{made};
  }
  return {out};
}

std::vector<TensorType> infer_arg(const OpView& op) {
  std::vector<int> axes = axes_of(op, 1);
  if (axes.size() != 1) reject(op, "it takes one axis");
  return {{op.get<IndexOptions>().dtype, without(op.shape(0), axes, false)}};
}

std::vector<TensorType> infer_same(const OpView& op) { return {{op.dtype(0), op.shape(0)}}; }

std::vector<TensorType> infer_softmax(const OpView& op) {
  if (op.rank(0) < 1) reject(op, "a scalar has no last axis");
  return infer_same(op);
}

std::vector<TensorType> infer_top_k(const OpView& op) {
  if (op.rank(0) < 1) reject(op, "a scalar has no last axis");
  Shape out = op.shape(0);
  const auto* k = op.contents(1);
  out.back() = k && k->size() == 1 ? (*k)[0] : op.symbols().fresh("top_k");
  if (!is_symbol(out.back()) && out.back() < 0) reject(op, fmt::format("k is {}", out.back()));
  if (!is_symbol(out.back()) && stream::is_static(op.shape(0).back()) && out.back() > op.shape(0).back())
    reject(op, fmt::format("k {} is larger than the axis, {}", out.back(), op.shape(0).back()));
  return {{op.dtype(0), out}, {DType::kInt32, out}};
}

template <stream::Reduction kOp>
std::vector<RecipeRef> fold_reduce(const OpView& op) {
  std::vector<int> axes = axes_of(op, 1);
  RecipeRef kept = recipe::reduce(kOp, op.recipe(0), axes);
  return {recipe::reshape(kept, without(op.shape(0), axes, op.get<ReduceOptions>().keep_dims))};
}

// Weights that are standardised (their mean taken off, divided by their deviation) are constants again, of any size.
std::vector<RecipeRef> fold_mean(const OpView& op) {
  if (op.dtype(0) != DType::kFloat32 && op.dtype(0) != DType::kFloat64) return {};
  const std::vector<RecipeRef> sum = fold_reduce<stream::Reduction::kSum>(op);
  const double count = static_cast<double>(op.recipe(0)->elements()) / static_cast<double>(sum[0]->elements());
  return {recipe::binary(stream::Binary::kDiv, sum[0], recipe::fill_value(count, op.dtype(0), {}))};
}

// What is left of a permutation when axes are taken out of the tensor.
Perm without_axes(const Perm& perm, const std::vector<int>& axes) {
  Perm out;
  for (int axis : perm) {
    if (std::count(axes.begin(), axes.end(), axis)) continue;
    out.push_back(axis - static_cast<int>(std::count_if(axes.begin(), axes.end(), [&](int a) { return a < axis; })));
  }
  return out;
}
// The other way: a permutation of the reduced tensor put back among the reduced axes, which keep their places.
Perm with_axes(const Perm& perm, const std::vector<int>& axes, int rank) {
  std::vector<int> kept;
  for (int i = 0; i < rank; ++i)
    if (!std::count(axes.begin(), axes.end(), i)) kept.push_back(i);
  Perm out;
  size_t next = 0;
  for (int i = 0; i < rank; ++i)
    out.push_back(std::count(axes.begin(), axes.end(), i) ? i : kept[static_cast<size_t>(perm[next++])]);
  return out;
}

std::optional<Movement> commute_dropping(const OpView& op, Slot slot, const Perm& perm, bool keep) {
  if (!op.ints(1)) return std::nullopt;
  std::vector<int> axes = axes_of(op, 1);
  Movement movement;
  movement.inputs.resize(op.inputs.size());
  if (slot.output) {
    movement.inputs[0] = keep ? perm : with_axes(perm, axes, op.rank(0));
    movement.outputs = {perm};
  } else {
    if (slot.index != 0) return std::nullopt;
    movement.inputs[0] = perm;
    movement.outputs = {keep ? perm : without_axes(perm, axes)};
  }
  return movement;
}

std::optional<Movement> commute_reduce(const OpView& op, std::span<const ValueId>, Slot slot, const Perm& perm) {
  return commute_dropping(op, slot, perm, op.get<ReduceOptions>().keep_dims);
}
std::optional<Movement> commute_arg(const OpView& op, std::span<const ValueId>, Slot slot, const Perm& perm) {
  return commute_dropping(op, slot, perm, false);
}

// The axes input, wherever a permuted input 0 has them now; its dtype and rank stay.
void rewrite_axes(Graph& graph, Op& op, const Movement& movement) {
  if (movement.inputs[0].empty()) return;
  std::vector<int64_t> axes = *graph.ints(op.inputs[1]);
  const int rank = static_cast<int>(movement.inputs[0].size());
  for (int64_t& axis : axes) axis = moved_axis(static_cast<int>(axis < 0 ? axis + rank : axis), movement.inputs[0]);
  const Value& old = graph.at(op.inputs[1]);
  op.inputs[1] = graph.add_ints(axes, old.dtype, old.shape);
}

// Softmax, log-softmax, top-k: the last axis has to stay the last.
std::optional<Movement> commute_last(const OpView& op, std::span<const ValueId> outputs, Slot slot, const Perm& perm) {
  if (perm.empty() || perm.back() != static_cast<int>(perm.size()) - 1) return std::nullopt;
  if (!slot.output) return follow_first(op, outputs, slot, perm);
  return follow_first(op, outputs, {false, 0}, perm);
}

// CUMSUM: shape is kept, the axis moves.
std::optional<Movement> commute_cumsum(const OpView& op, std::span<const ValueId> outputs, Slot slot,
                                       const Perm& perm) {
  if (!slot.output && slot.index != 0) return std::nullopt;
  return follow_first(op, outputs, {false, 0}, perm);
}

using R = stream::Reduction;
constexpr std::array kReduceRows = {
    Traits{Kind::kSum, infer_reduce, fold_reduce<R::kSum>, commute_reduce, rewrite_axes},
    Traits{Kind::kMean, infer_reduce, fold_mean, commute_reduce, rewrite_axes},
    Traits{Kind::kReduceMax, infer_reduce, fold_reduce<R::kMax>, commute_reduce, rewrite_axes},
    Traits{Kind::kReduceMin, infer_reduce, fold_reduce<R::kMin>, commute_reduce, rewrite_axes},
    Traits{Kind::kReduceProd, infer_reduce, fold_reduce<R::kProd>, commute_reduce, rewrite_axes},
    Traits{Kind::kReduceAny, infer_reduce, nullptr, commute_reduce, rewrite_axes},
    Traits{Kind::kReduceAll, infer_reduce, nullptr, commute_reduce, rewrite_axes},
    Traits{Kind::kArgMax, infer_arg, nullptr, commute_arg, rewrite_axes},
    Traits{Kind::kArgMin, infer_arg, nullptr, commute_arg, rewrite_axes},
    Traits{Kind::kCumsum, infer_same, nullptr, commute_cumsum, rewrite_axes},
    Traits{Kind::kSoftmax, infer_softmax, nullptr, commute_last, nullptr},
    Traits{Kind::kLogSoftmax, infer_softmax, nullptr, commute_last, nullptr},
    Traits{Kind::kTopkV2, infer_top_k, nullptr, commute_last, nullptr},
};

}  // namespace

std::span<const Traits> reduce_traits() { return kReduceRows; }

}  // namespace lowtide::core
