// SPDX-License-Identifier: Apache-2.0
#include "layout/lower/shapes_and_indices.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "stream/recipe/recipe_reader.h"

namespace lowtide::layout {
namespace {

size_t symbols_in(std::span<const Dim> dims) {
  return static_cast<size_t>(std::count_if(dims.begin(), dims.end(), core::is_symbol));
}

// Whether a computed value has no number below 0, so that as an index it needs no correction. Where it is a CAST from
// 64 bits to 32, the numbers before must be below 2^31 too. Sums and products may wrap, so they prove nothing.
class NeverNegative {
 public:
  explicit NeverNegative(core::Graph& graph) : graph_(graph) {}

  bool operator()(core::ValueId id) {
    if (--looks_left_ < 0) return false;
    if (graph_.at(id).is_constant()) return has_only(id, [](int64_t x) { return x >= 0 && x <= kMost; });
    const core::Op* op = producer(id);
    if (!op) return false;
    const auto each = [&](std::span<const core::ValueId> inputs) {
      return std::all_of(inputs.begin(), inputs.end(), std::ref(*this));
    };
    switch (op->kind) {
      case Kind::kArgMax:
      case Kind::kArgMin:
      case Kind::kWhere:
      case Kind::kShape:
        return true;
      case Kind::kTopkV2:
      case Kind::kUnique:
        return op->outputs[1] == id;
      case Kind::kCast:
        is_narrowed_ |= stream::bits(graph_.at(id).dtype) < 64;
        return stream::is_integer(graph_.at(op->inputs[0]).dtype) && stream::bits(graph_.at(id).dtype) >= 32 &&
               (*this)(op->inputs[0]);
      case Kind::kReshape:
      case Kind::kTranspose:
      case Kind::kSqueeze:
      case Kind::kExpandDims:
      case Kind::kSlice:
      case Kind::kStridedSlice:
      case Kind::kUnpack:
        return (*this)(op->inputs[0]);
      case Kind::kSplit:
        return (*this)(op->inputs[1]);
      case Kind::kConcatenation:
      case Kind::kPack:
      case Kind::kMinimum:
        return each(op->inputs);
      case Kind::kMaximum:
        return is_clamped(*op) || each(op->inputs);
      case Kind::kSelectV2:
        return each(std::span(op->inputs).subspan(1));
      case Kind::kFloorMod:
        return is_positive(op->inputs[1]);
      case Kind::kDiv:
      case Kind::kFloorDiv:
        return is_positive(op->inputs[1]) && (*this)(op->inputs[0]);
      case Kind::kSub:
        return is_part(op->inputs[0], op->inputs[1]) && (*this)(op->inputs[0]);
      default:
        return false;
    }
  }

 private:
  const core::Op* producer(core::ValueId id) const {
    const core::OpId producer = graph_.at(id).producer;
    return producer < 0 ? nullptr : &graph_.ops[static_cast<size_t>(producer)];
  }
  template <typename Test>
  bool has_only(core::ValueId id, Test test) {
    const auto known = graph_.ints(id);
    return known && std::all_of(known->begin(), known->end(), test);
  }
  // As Clip does it to labels whose -1 stands for nothing.
  bool is_clamped(const core::Op& maximum) {
    const bool fits = !is_narrowed_ || stream::bits(graph_.at(maximum.outputs[0]).dtype) <= 32;
    return fits && std::any_of(maximum.inputs.begin(), maximum.inputs.end(),
                               [&](core::ValueId in) { return graph_.at(in).is_constant() && (*this)(in); });
  }
  bool is_positive(core::ValueId id) {
    return graph_.at(id).is_constant() && has_only(id, [](int64_t x) { return x > 0 && x <= kMost; });
  }
  // Whether `part` is a part of x: x mod n, x / n, x / n * n.
  bool is_part(core::ValueId x, core::ValueId part) {
    const core::Op* op = producer(part);
    if (!op) return false;
    switch (op->kind) {
      case Kind::kFloorMod:
      case Kind::kDiv:
      case Kind::kFloorDiv:
        return op->inputs[0] == x && is_positive(op->inputs[1]);
      case Kind::kMul:
        return is_positive(op->inputs[1]) && is_quotient(op->inputs[0], x, op->inputs[1]);
      default:
        return false;
    }
  }
  // x / n, or (x - x mod n) / n.
  bool is_quotient(core::ValueId id, core::ValueId x, core::ValueId n) {
    const core::Op* op = producer(id);
    if (!op || (op->kind != Kind::kDiv && op->kind != Kind::kFloorDiv) || !is_same(op->inputs[1], n)) return false;
    if (op->inputs[0] == x) return true;
    const core::Op* whole = producer(op->inputs[0]);
    return whole && whole->kind == Kind::kSub && whole->inputs[0] == x && is_part_of_one(whole->inputs[1], x, n);
  }
  bool is_part_of_one(core::ValueId part, core::ValueId x, core::ValueId n) {
    const core::Op* op = producer(part);
    return op && op->kind == Kind::kFloorMod && op->inputs[0] == x && is_same(op->inputs[1], n);
  }
  bool is_same(core::ValueId a, core::ValueId b) {
    return a == b || (graph_.at(a).is_constant() && graph_.at(b).is_constant() &&
                      graph_.at(a).shape == graph_.at(b).shape && graph_.ints(a) == graph_.ints(b));
  }

  static constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  core::Graph& graph_;
  bool is_narrowed_ = false;
  int looks_left_ = 64;  // a graph in which each op reads a value twice has 2^depth paths
};

bool never_negative_index(core::Graph& graph, core::ValueId id) { return NeverNegative(graph)(id); }

// Constant indices as non-negative ones, each row checked against the dimensions. nullopt when they are known at run
// time only, or when a negative one counts from the end of a dynamic dimension.
std::optional<Val> known_non_negative(Lowering& lo, Val indices, std::span<const Dim> dims) {
  auto known = lo.ints(indices);
  if (!known) return std::nullopt;
  bool changed = false;
  for (size_t i = 0; i < known->size(); ++i) {
    int64_t& index = (*known)[i];
    const Dim dim = dims[i % dims.size()];
    if (core::is_symbol(dim)) {
      if (index < 0) return std::nullopt;
      continue;
    }
    if (index < -dim || index >= dim)
      lo.malformed(fmt::format("index {} is out of range for an axis of {} elements", index, dim));
    if (index >= 0) continue;
    index += dim;
    changed = true;
  }
  if (!changed) return indices;
  const Shape shape = lo.shape(indices);
  return Val{lo.b.graph.add_ints(*known, lo.dtype(indices), shape)};
}

}  // namespace

bool never_negative(Lowering& lo, Val numbers) {
  const core::Graph& graph = lo.b.graph;
  if (const auto dims = lo.dims(numbers))
    return std::all_of(dims->begin(), dims->end(),
                       [&](Dim dim) { return graph.symbols.is_not_negative(dim, graph.extents); });
  return never_negative_index(lo.b.graph, numbers.id);
}

Val reshape_to(Lowering& lo, Val x, std::span<const Dim> dims) {
  if (symbols_in(dims) <= 1 || std::equal(dims.begin(), dims.end(), lo.shape(x).begin(), lo.shape(x).end()))
    return lo.b.reshape(x, dims);
  // One of the symbols can become -1: the others must be computed from shapes of tensors, so try each in turn.
  std::vector<Dim> target(dims.begin(), dims.end());
  for (size_t open = target.size(); open-- > 0;) {
    if (!core::is_symbol(target[open])) continue;
    target[open] = -1;
    try {
      Val out = lo.b.op(Kind::kReshape, {x, lo.b.dims(target)});
      if (!lo.b.is_constant(out)) lo.b.graph.at(out.id).shape.assign(dims.begin(), dims.end());
      return out;
    } catch (const stream::Unsupported&) {
      target[open] = dims[open];  // another symbol cannot be computed: it has to be the -1
    }
  }
  return lo.b.reshape(x, dims);
}

Val with_length(Lowering& lo, Val list, Dim length) {
  const Dim have = lo.b.dim(list, 0);
  if (known_to_differ(have, length)) lo.misfit(fmt::format("a list must have {} elements; it has {}", length, have));
  return have == length ? list : lo.b.reshape(list, {length});
}

Val squeeze_axes(Lowering& lo, Val x, const std::vector<int>& axes) {
  if (axes.empty()) return x;
  if (symbols_in(lo.shape(x)) <= 1) return lo.b.squeeze(x, axes);
  return lo.b.op(Kind::kSqueeze, {x}, core::SqueezeOptions{{axes.begin(), axes.end()}});
}

Val unsqueeze_axes(Lowering& lo, Val x, const std::vector<int>& axes) {
  if (symbols_in(lo.shape(x)) <= 1) return lo.b.unsqueeze(x, axes);
  std::vector<int> sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  for (int axis : sorted) x = lo.b.op(Kind::kExpandDims, {x, lo.b.i32_scalar(axis)});
  return x;
}

Val as_scalar(Lowering& lo, Val x) {
  for (Dim dim : lo.shape(x))
    if (dim != 1 && !core::is_symbol(dim))
      lo.misfit("an input that must be a scalar has shape " + stream::to_string(lo.shape(x)));
  return lo.b.reshape(x, {});
}

Val dim_as_scalar(Lowering& lo, Dim dim, DType dtype) {
  if (!core::is_symbol(dim)) return lo.b.scalar(static_cast<double>(dim), dtype);
  const bool listed = dtype == DType::kInt32 || dtype == DType::kInt64;
  Val scalar = lo.b.reshape(lo.b.dims({&dim, 1}, listed ? dtype : DType::kInt32), {});
  return lo.b.cast(scalar, dtype);
}

Val filled_with(Lowering& lo, std::span<const Dim> dims, Val scalar) {
  if (stream::is_static(dims) && lo.b.is_constant(scalar)) {
    const stream::RecipeRef one = lo.b.graph.at(scalar.id).constant;
    return lo.b.constant(
        stream::recipe::fill(stream::evaluate(one, lo.b.graph.budget), one->dtype, {dims.begin(), dims.end()}));
  }
  return lo.b.fill(lo.b.dims(dims), scalar);
}

Val iota(Lowering& lo, Dim dim, DType dtype) {
  if (!core::is_symbol(dim)) return lo.b.constant(stream::recipe::iota(0, 1, dtype, dim));
  const Val step = lo.b.scalar(1, dtype);
  const Val end = dim_as_scalar(lo, dim, dtype);
  return lo.b.range(lo.b.scalar(0, dtype), end, step);
}

Val as_i32_clamped(Lowering& lo, Val list, int64_t most) {
  if (auto known = lo.dims(list); known && lo.rank(list) == 1) {
    for (Dim& dim : *known)
      if (!core::is_symbol(dim)) dim = std::clamp<Dim>(dim, -most, most);
    try {
      return lo.b.dims(*known);
    } catch (const stream::Unsupported&) {  // use the values that the graph computes
    }
  } else if (lo.dtype(list) == DType::kInt64) {
    const auto far = static_cast<double>(most);
    list = lo.b.minimum(lo.b.maximum(list, lo.b.scalar(-far, DType::kInt64)), lo.b.scalar(far, DType::kInt64));
  }
  return lo.b.cast(list, DType::kInt32);
}

Val non_negative_indices(Lowering& lo, Val indices, Dim dim) {
  const Dim one[] = {dim};
  if (auto known = known_non_negative(lo, indices, one)) return *known;
  if (!stream::is_signed_int(lo.dtype(indices)) || never_negative_index(lo.b.graph, indices.id)) return indices;
  Val below = lo.b.less(indices, lo.b.scalar_like(0, indices));
  return lo.b.select(below, lo.b.add(indices, dim_as_scalar(lo, dim, lo.dtype(indices))), indices);
}

Val non_negative_tuples(Lowering& lo, Val indices, std::span<const Dim> dims) {
  if (auto known = known_non_negative(lo, indices, dims)) return *known;
  if (never_negative_index(lo.b.graph, indices.id)) return indices;
  Val below = lo.b.less(indices, lo.b.scalar_like(0, indices));
  return lo.b.select(below, lo.b.add(indices, lo.b.dims(dims, lo.dtype(indices))), indices);
}

Val last_updates_of_rows(Lowering& lo, Val updates, Val indices, Dim count, Val otherwise) {
  const Dim given = lo.b.dim(indices, 0);
  const Val none = lo.b.scalar(0, DType::kInt32);
  const Val last = lo.b.op(Kind::kUnsortedSegmentMax,
                           {iota(lo, given, DType::kInt32), indices, dim_as_scalar(lo, count, DType::kInt32)});
  const Val hit = lo.b.greater_equal(last, none);
  // A row to take where there is no update at all.
  if (core::is_symbol(given)) {
    Shape row = lo.shape(updates);
    row[0] = 1;
    updates = lo.b.concat({updates, filled_with(lo, row, lo.b.scalar_like(0, updates))}, 0);
  }
  const int columns[] = {1};
  return lo.b.select(lo.rank(updates) == 1 ? hit : lo.b.unsqueeze(hit, columns),
                     lo.b.gather(updates, lo.b.maximum(last, none), 0), otherwise);
}

Val times_listed(Lowering& lo, Val axes, int rank) {
  const int last[] = {1};
  const Val places = lo.b.unsqueeze(non_negative_indices(lo, axes, rank), last);
  return lo.b.scatter_nd(places, filled_with(lo, lo.shape(axes), lo.b.i32_scalar(1)), lo.b.i32({rank}));
}

Val places_of(Lowering& lo, Val which, Dim count, Dim listed) {
  const Val places = lo.b.where(which);
  if (listed > 1) return lo.b.op(Kind::kReshape, {places, lo.b.i32({count, 1})});
  lo.b.graph.at(places.id).shape[0] = count;
  return places;
}

Val scattered_to_axes(Lowering& lo, Val values, Val axes, int rank, int64_t otherwise) {
  const Dim count = lo.b.dim(axes, 0);
  if (known_to_differ(lo.b.dim(values, 0), count))
    lo.misfit(fmt::format("{} axes are listed, and {} numbers for them", count, lo.b.dim(values, 0)));
  axes = non_negative_indices(lo, axes, rank);
  if (const auto known = lo.ints(axes)) {
    std::vector<int64_t> sources(static_cast<size_t>(rank), 0);
    for (size_t i = 0; i < known->size(); ++i) sources[static_cast<size_t>((*known)[i])] = static_cast<int64_t>(i) + 1;
    return lo.b.gather(lo.b.concat({lo.b.i32({otherwise}), values}, 0), lo.b.i32(sources), 0);
  }
  const Val none = lo.b.i32(std::vector<int64_t>(static_cast<size_t>(rank), otherwise));
  return count == 0 ? none : last_updates_of_rows(lo, values, axes, rank, none);
}

}  // namespace lowtide::layout
