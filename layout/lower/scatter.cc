// ScatterND, ScatterElements and its old name Scatter.
//
// How the specifications differ: SCATTER_ND makes a new tensor of zeros and adds where an index comes twice; ONNX
// writes into a copy of the data. So "none" is a choice between data and the scattered updates, "add" is their sum
// (indices that come twice are undefined in ONNX for "none"). Maxima, minima and products go through
// UNSORTED_SEGMENT_*.
#include <algorithm>
#include <limits>
#include <string>

#include "layout/lower/extents.h"

namespace lowtide::layout {
namespace {

// A scatter in its simplest form: rows of a matrix [count, width], one index (i32 [n]) for each row of updates [n,
// width].
struct Rows {
  Val data, indices, updates;
  Dim count, width, updated;
};

Val scattered(Lowering& lo, const Rows& rows, Val updates, Dim width) {
  const Dim shape[] = {rows.count, width};
  const int last[] = {1};
  return lo.b.scatter_nd(lo.b.unsqueeze(rows.indices, last), updates, lo.b.dims(shape));
}

// Where at least one update goes: bool [count, 1].
Val touched(Lowering& lo, const Rows& rows) {
  const Dim shape[] = {rows.updated, 1};
  Val hits = scattered(lo, rows, filled_with(lo, shape, lo.b.scalar(1, DType::kInt32)), 1);
  return lo.b.greater(hits, lo.b.scalar(0, DType::kInt32));
}

Val reduced(Lowering& lo, const Rows& rows, Kind segments, Kind join) {
  Val best = lo.b.op(segments, {rows.updates, rows.indices, extent(lo, rows.count, DType::kInt32)});
  return lo.b.select(touched(lo, rows), lo.b.op(join, {rows.data, best}), rows.data);
}

Val combined(Lowering& lo, const Rows& rows, const std::string& reduction) {
  if (reduction == "none")
    return lo.b.select(touched(lo, rows), scattered(lo, rows, rows.updates, rows.width), rows.data);
  if (lo.dtype(rows.data) == DType::kBool) lo.unsupported("reduction '" + reduction + "' of booleans");
  if (reduction == "add") return lo.b.add(rows.data, scattered(lo, rows, rows.updates, rows.width));
  // The segment kernels know these two types.
  if (lo.dtype(rows.data) != DType::kFloat32 && lo.dtype(rows.data) != DType::kInt32)
    lo.unsupported("reduction '" + reduction + "' of " + std::string(stream::dtype_name(lo.dtype(rows.data))));
  if (reduction == "mul") {
    Val factors =
        lo.b.op(Kind::kUnsortedSegmentProd, {rows.updates, rows.indices, extent(lo, rows.count, DType::kInt32)});
    return lo.b.mul(rows.data, factors);
  }
  if (reduction == "max") return reduced(lo, rows, Kind::kUnsortedSegmentMax, Kind::kMaximum);
  if (reduction == "min") return reduced(lo, rows, Kind::kUnsortedSegmentMin, Kind::kMinimum);
  lo.malformed("reduction '" + reduction + "' is not known");
}

std::string reduction_of(Lowering& lo) { return lo.opset() >= 16 ? lo.attr_s("reduction", "none") : "none"; }

void check_types(Lowering& lo) {
  if (lo.dtype(lo.input(0)) != lo.dtype(lo.input(2))) lo.malformed("data and updates differ in type");
  if (!stream::is_signed_int(lo.dtype(lo.input(1)))) lo.malformed("the indices are no integers");
}

// a * b where either may be a symbol, with a scalar or tensor `a` of i32.
Val times(Lowering& lo, Val a, Dim factor) { return factor == 1 ? a : lo.b.mul(a, extent(lo, factor, DType::kInt32)); }

}  // namespace

void lower_scatter_nd(Lowering& lo) {
  check_types(lo);
  Val data = lo.input(0), indices = lo.input(1), updates = lo.input(2);
  const std::string reduction = reduction_of(lo);
  const Shape dims = lo.shape(data);
  if (dims.empty() || lo.rank(indices) == 0) lo.malformed("data and indices must not be scalars");
  const int64_t depth = lo.need_static(lo.shape(indices).back(), "the last dimension of the indices");
  if (depth < 1 || depth > lo.rank(data))
    lo.malformed("indices of " + std::to_string(depth) + " numbers into rank " + std::to_string(lo.rank(data)));
  core::Symbols& symbols = lo.b.graph.symbols;
  const std::span<const Dim> all(dims), outer = all.first(static_cast<size_t>(depth));
  Rows rows;
  rows.count = symbols.product(outer);
  rows.width = symbols.product(all.subspan(static_cast<size_t>(depth)));
  const Shape index_shape = lo.shape(indices);
  rows.updated = symbols.product(std::span<const Dim>(index_shape).first(index_shape.size() - 1));

  // The place of a row: its coordinates times their strides, summed.
  indices = lo.b.cast(wrapped_tuples(lo, indices, outer), DType::kInt32);
  const Dim table[] = {rows.updated, depth}, list[] = {rows.updated};
  indices = reshape_to(lo, indices, table);
  Val place;
  for (int64_t i = 0; i < depth; ++i) {
    const int64_t begin[] = {0, i};
    const Dim size[] = {-1, 1};
    Val coordinate = reshape_to(lo, lo.b.slice(indices, begin, size), list);
    coordinate = times(lo, coordinate, symbols.product(outer.subspan(static_cast<size_t>(i) + 1)));
    place = place ? lo.b.add(place, coordinate) : coordinate;
  }
  rows.indices = place;
  const Dim matrix[] = {rows.count, rows.width}, changed[] = {rows.updated, rows.width};
  rows.data = reshape_to(lo, data, matrix);
  rows.updates = reshape_to(lo, updates, changed);
  lo.output(0, reshape_to(lo, combined(lo, rows, reduction), dims));
}

void lower_scatter_elements(Lowering& lo) {
  check_types(lo);
  Val data = lo.input(0), indices = lo.input(1), updates = lo.input(2);
  const std::string reduction = reduction_of(lo);
  const Shape dims = lo.shape(data), index_shape = lo.shape(indices);
  const int rank = lo.rank(data);
  const int axis = lo.axis(lo.attr_i("axis", 0), rank);
  if (lo.rank(indices) != rank || lo.rank(updates) != rank) lo.malformed("data, indices and updates differ in rank");
  core::Symbols& symbols = lo.b.graph.symbols;
  Rows rows{.data = {},
            .indices = {},
            .updates = {},
            .count = symbols.product(dims),
            .width = 1,
            .updated = symbols.product(index_shape)};

  // The flat place of an element: its index along the axis and its own coordinate along every other, times the strides.
  auto stride = [&](int a) { return symbols.product(std::span<const Dim>(dims).subspan(static_cast<size_t>(a) + 1)); };
  Val place = times(lo, lo.b.cast(wrapped(lo, indices, dims[static_cast<size_t>(axis)]), DType::kInt32), stride(axis));
  for (int a = 0; a < rank; ++a) {
    if (a == axis || index_shape[static_cast<size_t>(a)] == 1) continue;
    Shape across(static_cast<size_t>(rank), 1);
    across[static_cast<size_t>(a)] = index_shape[static_cast<size_t>(a)];
    Val own = times(lo, counting(lo, index_shape[static_cast<size_t>(a)], DType::kInt32), stride(a));
    place = lo.b.add(place, reshape_to(lo, own, across));
  }
  const Dim list[] = {rows.updated}, column[] = {rows.count, 1}, changed[] = {rows.updated, 1};
  rows.indices = reshape_to(lo, place, list);
  rows.data = reshape_to(lo, data, column);
  rows.updates = reshape_to(lo, updates, changed);
  lo.output(0, reshape_to(lo, combined(lo, rows, reduction), dims));
}

}  // namespace lowtide::layout
