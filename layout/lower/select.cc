// Where, OneHot, NonZero, Trilu, Unique: choosing by conditions.
//
// How the specifications differ: ONE_HOT counts no index from the end. WHERE lists one row an element, NonZero one row
// an axis. UNIQUE keeps the order of appearance, ONNX sorts unless told otherwise.
#include <string>

#include "layout/lower/extents.h"

namespace lowtide::layout {
namespace {

// An element of a list as a scalar.
Val element(Lowering& lo, Val list, int64_t at) {
  const Dim one = 1;
  return lo.b.reshape(lo.b.slice(list, {&at, 1}, {&one, 1}), {});
}

}  // namespace

void lower_where(Lowering& lo) {
  Val yes = lo.input(1), no = lo.input(2);
  if (lo.dtype(lo.input(0)) != DType::kBool) lo.malformed("the condition is not boolean");
  if (lo.dtype(yes) != lo.dtype(no)) lo.malformed("the two choices differ in type");
  lo.output(0, lo.b.select(lo.input(0), yes, no));
}

void lower_one_hot(Lowering& lo) {
  Val indices = lo.input(0), depth = as_scalar(lo, lo.input(1)), values = lo.input(2);
  const int axis = lo.axis(lo.attr_i("axis", -1), lo.rank(indices) + 1);
  if (lo.rank(values) != 1 || lo.shape(values)[0] != 2) lo.malformed("the values are not [off, on]");
  if (lo.dtype(indices) != DType::kInt32) indices = lo.b.cast(indices, DType::kInt64);
  if (lo.opset() >= 11) {
    // -depth .. -1 count from the end; what lies outside that too stays outside.
    Val below = lo.b.less(indices, lo.b.scalar_like(0, indices));
    indices = lo.b.select(below, lo.b.add(indices, lo.b.cast(depth, lo.dtype(indices))), indices);
  }
  Val off = element(lo, values, 0), on = element(lo, values, 1);
  lo.output(0, lo.b.one_hot(indices, lo.b.cast(depth, DType::kInt32), on, off, axis));
}

void lower_non_zero(Lowering& lo) {
  Val x = lo.input(0);
  if (lo.rank(x) == 0) x = lo.b.reshape(x, {1});  // as ONNX Runtime does
  lo.output(0, lo.b.transpose(lo.b.where(x), {1, 0}));
}

void lower_trilu(Lowering& lo) {
  Val x = lo.input(0);
  if (lo.rank(x) < 2) lo.malformed("a matrix is needed, not rank " + std::to_string(lo.rank(x)));
  const bool upper = lo.attr_i("upper", 1) != 0;
  const int across[] = {0}, down[] = {1};
  Val columns = lo.b.unsqueeze(counting(lo, lo.b.dim(x, -1), DType::kInt32), across);
  Val rows = lo.b.unsqueeze(counting(lo, lo.b.dim(x, -2), DType::kInt32), down);
  // k counts diagonals to the right of the main one.
  if (lo.has_input(1)) rows = lo.b.add(rows, as_scalar(lo, as_i32_clamped(lo, lo.input(1))));
  Val kept = upper ? lo.b.greater_equal(columns, rows) : lo.b.less_equal(columns, rows);
  lo.output(0, lo.b.select(kept, x, lo.b.scalar(0, lo.dtype(x))));
}

namespace {

// The order in which a list ascends, as i32 indices.
Val ascending_order(Lowering& lo, Val list, Val count) {
  const bool is_float = stream::is_float(lo.dtype(list));
  Val turned = is_float ? lo.b.neg(list) : lo.b.sub(lo.b.scalar_like(-1, list), list);  // -1 - x cannot overflow
  return lo.b.top_k(turned, count)[1];
}

}  // namespace

void lower_unique(Lowering& lo) {
  Val x = lo.input(0);
  const bool sorted = lo.attr_i("sorted", 1) != 0;
  if (lo.has_attr("axis") && (lo.rank(x) != 1 || lo.axis(lo.need_attr_i("axis"), 1) != 0))
    lo.unsupported("Unique of slices along an axis", "flatten the input first");
  if (sorted && !stream::is_float(lo.dtype(x)) && !stream::is_signed_int(lo.dtype(x)))
    lo.unsupported("sorted Unique of " + std::string(stream::dtype_name(lo.dtype(x))));
  const Dim all[] = {lo.b.graph.symbols.product(lo.shape(x))};
  x = reshape_to(lo, x, all);
  std::vector<Val> found = lo.b.ops(Kind::kUnique, {x}, core::IndexOptions{DType::kInt32}, 2);
  Val unique = found[0], inverse = found[1];
  Val shape = lo.b.shape_of(unique), count = lo.b.reshape(shape, {});
  if (sorted) {
    Val order = ascending_order(lo, unique, count);
    // The place of each old number in the new order is the order of the order.
    Val places = ascending_order(lo, order, count);
    unique = lo.b.gather(unique, order, 0);
    inverse = lo.b.gather(places, inverse, 0);
  }
  lo.output(0, unique);
  if (lo.wants_output(1)) {
    Val first = lo.b.op(Kind::kUnsortedSegmentMin, {counting(lo, all[0], DType::kInt32), inverse, count});
    lo.output(1, lo.b.cast(first, DType::kInt64));
  }
  lo.output(2, lo.b.cast(inverse, DType::kInt64));
  if (lo.wants_output(3)) {
    const int last[] = {1};
    Val ones = filled_with(lo, all, lo.b.scalar(1, DType::kInt32));
    lo.output(3, lo.b.cast(lo.b.scatter_nd(lo.b.unsqueeze(inverse, last), ones, shape), DType::kInt64));
  }
}

}  // namespace lowtide::layout
