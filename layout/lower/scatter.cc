// SPDX-License-Identifier: Apache-2.0
// ScatterND, ScatterElements and its old name Scatter, TensorScatter.
//
// Differences: SCATTER_ND makes a new tensor of zeros and adds the updates of repeated indices; ONNX writes into a copy
// of the data. So reduction "add" is a sum with it. Maxima, minima and products use UNSORTED_SEGMENT_*. Without a
// reduction repeated indices are undefined in ONNX, but exporters write them (a penalty for tokens that occur twice),
// and ONNX Runtime keeps the last update. So does this: the largest number of an update of each row is a segment's
// maximum.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <string>

#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

// All scatters are reduced to rows of a matrix: data [count, width], updates [n, width], one i32 index per update [n].
struct UpdateRows {
  Val data, indices, updates;
  Dim count, width, updated;
};

Val scattered(Lowering& lo, const UpdateRows& rows, Val updates, Dim width) {
  const Dim shape[] = {rows.count, width};
  const int last[] = {1};
  const Val size = lo.b.dims(shape);
  return lo.b.scatter_nd(lo.b.unsqueeze(rows.indices, last), updates, size);
}

// The rows with at least one update: bool [count, 1].
Val rows_with_update(Lowering& lo, const UpdateRows& rows) {
  const Dim shape[] = {rows.updated, 1};
  Val hits = scattered(lo, rows, filled_with(lo, shape, lo.b.scalar(1, DType::kInt32)), 1);
  return lo.b.greater(hits, lo.b.scalar(0, DType::kInt32));
}

// Maxima or minima; rows without an update do not change. The kernel starts a segment with the largest finite number,
// not infinity, so segments whose updates are all infinite are detected separately.
Val reduced(Lowering& lo, const UpdateRows& rows, Kind segments, Kind join) {
  Val count = dim_as_scalar(lo, rows.count, DType::kInt32);
  Val best = lo.b.op(segments, {rows.updates, rows.indices, count});
  if (stream::is_float(lo.dtype(rows.data))) {
    const bool highest = segments == Kind::kUnsortedSegmentMax;
    const double infinity = std::numeric_limits<double>::infinity();
    Val worst = lo.b.scalar_like(highest ? -infinity : infinity, rows.data);
    Val better = lo.b.cast(lo.b.not_equal(rows.updates, worst), DType::kFloat32);
    Val any = lo.b.op(Kind::kUnsortedSegmentMax, {better, rows.indices, count});
    best = lo.b.select(lo.b.greater(any, lo.b.scalar(0, DType::kFloat32)), best, worst);
  }
  const Val joined = lo.b.op(join, {rows.data, best});
  return lo.b.select(rows_with_update(lo, rows), joined, rows.data);
}

// Constant indices of small matrices: the row of [data; updates] that each row of the result is.
std::optional<std::vector<int64_t>> sources_of(Lowering& lo, const UpdateRows& rows) {
  const auto known = lo.ints(rows.indices);
  if (!known || core::is_symbol(rows.count) || rows.count > static_cast<Dim>(stream::kSmallElements))
    return std::nullopt;
  std::vector<int64_t> sources(static_cast<size_t>(rows.count));
  std::iota(sources.begin(), sources.end(), 0);
  int64_t next = rows.count;
  for (const int64_t row : *known) {
    if (row < 0 || row >= rows.count)
      lo.malformed(fmt::format("index {} is outside the {} rows of the data", row, rows.count));
    sources[static_cast<size_t>(row)] = next++;
  }
  return sources;
}

Val last_updates(Lowering& lo, const UpdateRows& rows) {
  if (const auto sources = sources_of(lo, rows))
    return lo.b.gather(lo.b.concat({rows.data, rows.updates}, 0), lo.b.i32(*sources), 0);
  return rows.updated == 0 ? rows.data : last_updates_of_rows(lo, rows.updates, rows.indices, rows.count, rows.data);
}

// No two indices are equal.
Val distinct_updates(Lowering& lo, const UpdateRows& rows) {
  return lo.b.select(rows_with_update(lo, rows), scattered(lo, rows, rows.updates, rows.width), rows.data);
}

Val combined_updates(Lowering& lo, const UpdateRows& rows, const std::string& reduction) {
  if (reduction == "none") return last_updates(lo, rows);
  if (lo.dtype(rows.data) == DType::kBool) lo.unsupported("reduction '" + reduction + "' of bool is not supported");
  if (reduction == "add") return lo.b.add(rows.data, scattered(lo, rows, rows.updates, rows.width));
  // UNSORTED_SEGMENT_* takes f32 and i32; legalise computes these others in them. Upper halves of u32 would change the
  // order.
  const DType dtype = lo.dtype(rows.data);
  if (dtype == DType::kUint32 || dtype == DType::kUint64)
    lo.unsupported("reduction '" + reduction + "' of " + std::string(stream::dtype_name(dtype)) + " is not supported");
  if (reduction == "mul") {
    Val factors =
        lo.b.op(Kind::kUnsortedSegmentProd, {rows.updates, rows.indices, dim_as_scalar(lo, rows.count, DType::kInt32)});
    return lo.b.mul(rows.data, factors);
  }
  if (reduction == "max") return reduced(lo, rows, Kind::kUnsortedSegmentMax, Kind::kMaximum);
  if (reduction == "min") return reduced(lo, rows, Kind::kUnsortedSegmentMin, Kind::kMinimum);
  lo.malformed("attribute 'reduction' has the unknown value '" + reduction + "'");
}

std::string reduction_of(Lowering& lo) { return lo.opset() >= 16 ? lo.attr_s("reduction", "none") : "none"; }

void check_indices(Lowering& lo) {
  if (!stream::is_signed_int(lo.dtype(lo.input(1))))
    lo.malformed("input 1 ('indices') must be int32 or int64; it is " +
                 std::string(stream::dtype_name(lo.dtype(lo.input(1)))));
}

// a * factor, for an i32 tensor `a`; `factor` may be a symbol.
Val times_dim(Lowering& lo, Val a, Dim factor) {
  return factor == 1 ? a : lo.b.mul(a, dim_as_scalar(lo, factor, DType::kInt32));
}

// A box of the data that constant indices name element by element, in order: its first corner and its sizes.
struct Box {
  std::vector<int64_t> begin;
  Shape size;
};
std::optional<Box> box_of(const std::vector<int64_t>& indices, size_t depth, std::span<const Dim> dims) {
  if (indices.empty() || !stream::is_static(dims)) return std::nullopt;
  Box box{{indices.begin(), indices.begin() + static_cast<ptrdiff_t>(depth)}, Shape(depth, 0)};
  for (size_t a = 0; a < depth; ++a) {
    const int64_t last = indices[indices.size() - depth + a];
    if (box.begin[a] < 0 || last < box.begin[a] || last >= dims[a]) return std::nullopt;
    box.size[a] = last - box.begin[a] + 1;
  }
  if (stream::element_count(box.size) != indices.size() / depth) return std::nullopt;
  std::vector<int64_t> at = box.begin;
  for (size_t i = 0; i < indices.size(); i += depth) {
    if (!std::equal(at.begin(), at.end(), indices.begin() + static_cast<ptrdiff_t>(i))) return std::nullopt;
    for (size_t a = depth; a-- > 0 && ++at[a] == box.begin[a] + box.size[a];) at[a] = box.begin[a];
  }
  return box;
}

// x[2:5] = u, which exporters write as a scatter, becomes one DYNAMIC_UPDATE_SLICE.
Val update_box(Lowering& lo, Val data, Val updates, Box box) {
  const Shape& dims = lo.shape(data);
  box.size.insert(box.size.end(), dims.begin() + static_cast<ptrdiff_t>(box.size.size()), dims.end());
  box.begin.resize(dims.size(), 0);
  return lo.b.op(Kind::kDynamicUpdateSlice, {data, reshape_to(lo, updates, box.size), lo.b.i32(box.begin)});
}

// The value that BROADCAST_TO repeats.
Val before_repetition(Lowering& lo, Val v) {
  const core::Graph& graph = lo.b.graph;
  for (core::OpId id; (id = graph.at(v.id).producer) >= 0;) {
    const core::Op& op = graph.ops[static_cast<size_t>(id)];
    if (op.kind != Kind::kBroadcastTo) break;
    v = {op.inputs[0]};
  }
  return v;
}

// Where x[:, 5:7] = u begins along its axis, an i32 list of one: exporters write an index for each element of u, which
// depends on the place along that axis only. nullopt for other indices. An index outside of the data, which ONNX does
// not allow, is an error here where it is known; at run time DYNAMIC_UPDATE_SLICE moves the box to the nearest place
// inside.
std::optional<Val> slab_begin(Lowering& lo, Val indices, size_t axis, Dim extent) {
  const Shape shape = lo.shape(indices);
  const Val source = before_repetition(lo, indices);
  const Dim list[] = {1};
  const Shape& of_source = lo.shape(source);
  if (shape[axis] == 1 && std::all_of(of_source.begin(), of_source.end(), [](Dim dim) { return dim == 1; }))
    return reshape_to(lo, lo.b.cast(non_negative_indices(lo, source, extent), DType::kInt32), list);
  const auto known = lo.ints(indices);
  if (!known || known->empty() || !stream::is_static(shape) || core::is_symbol(extent)) return std::nullopt;
  const size_t inner = stream::element_count(std::span<const Dim>(shape).subspan(axis + 1));
  const auto count = static_cast<size_t>(shape[axis]);
  const int64_t first = known->front();
  const int64_t begin = first < 0 ? first + extent : first;
  if (begin < 0 || begin > extent - shape[axis]) return std::nullopt;
  for (size_t i = 0; i < known->size(); ++i)
    if ((*known)[i] != first + static_cast<int64_t>(i / inner % count)) return std::nullopt;
  return lo.b.i32({begin});
}

// Whether the updates are as large as the data on all axes but one, or known to be no larger.
bool is_slab(std::span<const Dim> updates, std::span<const Dim> data, size_t axis) {
  for (size_t a = 0; a < data.size(); ++a) {
    const bool is_known = stream::is_static(updates[a]) && stream::is_static(data[a]);
    if (is_known ? updates[a] == 0 || updates[a] > data[a] : a != axis && updates[a] != data[a]) return false;
  }
  return stream::is_static(updates[axis]);
}

}  // namespace

void lower_scatter_nd(Lowering& lo) {
  check_indices(lo);
  Val data = lo.input(0), indices = lo.input(1), updates = lo.input(2);
  const std::string reduction = reduction_of(lo);
  const Shape dims = lo.shape(data);
  if (dims.empty() || lo.rank(indices) == 0) lo.malformed("data and indices must not be scalars");
  const int64_t depth = lo.need_static(lo.shape(indices).back(), "the last dimension of the indices");
  if (depth < 1 || depth > lo.rank(data))
    lo.malformed("the last axis of the indices must be from 1 to the data's rank " + std::to_string(lo.rank(data)) +
                 "; it is " + std::to_string(depth));
  if (auto known = lo.ints(indices); known && reduction == "none" && stream::is_static(dims)) {
    if (auto box = box_of(*known, static_cast<size_t>(depth), dims)) {
      lo.output(0, update_box(lo, data, updates, std::move(*box)));
      return;
    }
  }
  core::Symbols& symbols = lo.b.graph.symbols;
  const std::span<const Dim> all(dims), outer = all.first(static_cast<size_t>(depth));
  UpdateRows rows;
  rows.count = symbols.product(outer);
  rows.width = symbols.product(all.subspan(static_cast<size_t>(depth)));
  const Shape index_shape = lo.shape(indices);
  rows.updated = symbols.product(std::span<const Dim>(index_shape).first(index_shape.size() - 1));

  // The index of a row: the sum of its coordinates times their strides.
  indices = lo.b.cast(non_negative_tuples(lo, indices, outer), DType::kInt32);
  const Dim table[] = {rows.updated, depth}, list[] = {rows.updated};
  indices = reshape_to(lo, indices, table);
  Val place;
  for (int64_t i = 0; i < depth; ++i) {
    const int64_t begin[] = {0, i};
    const Dim size[] = {-1, 1};
    Val coordinate = reshape_to(lo, lo.b.slice(indices, begin, size), list);
    coordinate = times_dim(lo, coordinate, symbols.product(outer.subspan(static_cast<size_t>(i) + 1)));
    place = place ? lo.b.add(place, coordinate) : coordinate;
  }
  rows.indices = place;
  const Dim matrix[] = {rows.count, rows.width}, changed[] = {rows.updated, rows.width};
  rows.data = reshape_to(lo, data, matrix);
  rows.updates = reshape_to(lo, updates, changed);
  lo.output(0, reshape_to(lo, combined_updates(lo, rows, reduction), dims));
}

void lower_scatter_elements(Lowering& lo) {
  check_indices(lo);
  Val data = lo.input(0), indices = lo.input(1), updates = lo.input(2);
  const std::string reduction = reduction_of(lo);
  const Shape dims = lo.shape(data), index_shape = lo.shape(indices);
  const int rank = lo.rank(data);
  const int axis = lo.axis(lo.attr_i("axis", 0), rank);
  if (lo.rank(indices) != rank || lo.rank(updates) != rank)
    lo.malformed("data, indices and updates must have the same rank; the ranks are " + std::to_string(rank) + ", " +
                 std::to_string(lo.rank(indices)) + " and " + std::to_string(lo.rank(updates)));
  const auto along = static_cast<size_t>(axis);
  if (reduction == "none" && lo.shape(updates) == index_shape && is_slab(index_shape, dims, along))
    if (const auto begin = slab_begin(lo, indices, along, dims[along])) {
      std::vector<Val> corner(dims.size(), lo.b.i32({0}));
      corner[along] = *begin;
      lo.output(0, lo.b.op(Kind::kDynamicUpdateSlice, {data, updates, lo.b.concat(corner, 0)}));
      return;
    }
  core::Symbols& symbols = lo.b.graph.symbols;
  UpdateRows rows{.data = {},
                  .indices = {},
                  .updates = {},
                  .count = symbols.product(dims),
                  .width = 1,
                  .updated = symbols.product(index_shape)};

  // The flat index of an element: its index along the axis and its own coordinate along every other axis, times the
  // strides.
  auto stride = [&](int a) { return symbols.product(std::span<const Dim>(dims).subspan(static_cast<size_t>(a) + 1)); };
  Val place = times_dim(lo, lo.b.cast(non_negative_indices(lo, indices, dims[along]), DType::kInt32), stride(axis));
  for (int a = 0; a < rank; ++a) {
    if (a == axis || index_shape[static_cast<size_t>(a)] == 1) continue;
    Shape across(static_cast<size_t>(rank), 1);
    across[static_cast<size_t>(a)] = index_shape[static_cast<size_t>(a)];
    Val own = times_dim(lo, iota(lo, index_shape[static_cast<size_t>(a)], DType::kInt32), stride(a));
    place = lo.b.add(place, reshape_to(lo, own, across));
  }
  const Dim list[] = {rows.updated}, column[] = {rows.count, 1}, changed[] = {rows.updated, 1};
  rows.indices = reshape_to(lo, place, list);
  rows.data = reshape_to(lo, data, column);
  rows.updates = reshape_to(lo, updates, changed);
  lo.output(0, reshape_to(lo, combined_updates(lo, rows, reduction), dims));
}

// A key-value cache: each sample of the batch is updated at its own position.
void lower_tensor_scatter(Lowering& lo) {
  Val cache = lo.input(0), update = lo.input(1);
  const std::string mode = lo.attr_s("mode", "linear");
  if (mode != "linear" && mode != "circular") lo.malformed("attribute 'mode' has the unknown value '" + mode + "'");
  const int rank = lo.rank(cache), axis = lo.axis(lo.attr_i("axis", -2), rank);
  if (axis == 0 || lo.rank(update) != rank)
    lo.malformed("the axis must not be 0, and cache and update must have the same rank; the axis is " +
                 std::to_string(axis) + ", the ranks are " + std::to_string(rank) + " and " +
                 std::to_string(lo.rank(update)));
  const Shape dims = lo.shape(cache);
  const auto at = static_cast<size_t>(axis);
  if (!lo.has_input(2)) {
    const std::vector<int64_t> begin(dims.size(), 0);
    lo.output(0, lo.b.op(Kind::kDynamicUpdateSlice, {cache, update, lo.b.i32(begin)}));
    return;
  }
  // As [batch, others, sequence, width]: the row of (b, p, s) is (b * others + p) * sequence + place.
  core::Symbols& symbols = lo.b.graph.symbols;
  const std::span<const Dim> all(dims);
  const Dim others = symbols.product(all.subspan(1, at - 1)), width = symbols.product(all.subspan(at + 1));
  const Dim batch = dims[0], sequence = dims[at], written = lo.shape(update)[at];
  const Dim per_sample[] = {batch, 1, 1}, per_step[] = {1, 1, written}, per_prefix[] = {batch, others, 1};
  const Val step = reshape_to(lo, iota(lo, written, DType::kInt32), per_step);
  Val place = lo.b.add(reshape_to(lo, lo.b.cast(lo.input(2), DType::kInt32), per_sample), step);
  if (mode == "circular") place = lo.b.floor_mod(place, dim_as_scalar(lo, sequence, DType::kInt32));
  Val prefix = iota(lo, symbols.mul(batch, others), DType::kInt32);
  Val row = lo.b.add(reshape_to(lo, times_dim(lo, prefix, sequence), per_prefix), place);

  UpdateRows rows;
  rows.count = symbols.product(all.first(at + 1));
  rows.width = width;
  rows.updated = symbols.product(std::vector<Dim>{batch, others, written});
  const Dim list[] = {rows.updated}, matrix[] = {rows.count, width}, changed[] = {rows.updated, width};
  rows.indices = reshape_to(lo, row, list);
  rows.data = reshape_to(lo, cache, matrix);
  rows.updates = reshape_to(lo, update, changed);
  const bool wraps =
      mode == "circular" && (core::is_symbol(written) || core::is_symbol(sequence) || written > sequence);
  lo.output(0, reshape_to(lo, wraps ? last_updates(lo, rows) : distinct_updates(lo, rows), dims));
}

}  // namespace lowtide::layout
