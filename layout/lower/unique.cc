// SPDX-License-Identifier: Apache-2.0
// Unique.
//
// Differences: UNIQUE takes a list and keeps the order of appearance; ONNX sorts by default, and may compare slices
// along an axis. Every slice is compared with every other.
#include <algorithm>
#include <string>

#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

constexpr int kLast[] = {1};

// For each element its index among the unique ones, and their number.
struct UniqueIndices {
  Val places;  // i32 [n]
  Val count;   // i32 scalar
  Dim n;
};

// Sets outputs 1 to 3; returns output 1, the first index of each unique element, as i32.
Val set_index_outputs(Lowering& lo, const UniqueIndices& found) {
  Val first = lo.b.op(Kind::kUnsortedSegmentMin, {iota(lo, found.n, DType::kInt32), found.places, found.count});
  lo.output(1, lo.b.cast(first, DType::kInt64));
  lo.output(2, lo.b.cast(found.places, DType::kInt64));
  if (lo.wants_output(3)) {
    const Dim all[] = {found.n};
    Val ones = filled_with(lo, all, lo.b.i32_scalar(1));
    const Val size = lo.b.reshape(found.count, {1});
    Val counts = lo.b.scatter_nd(lo.b.unsqueeze(found.places, kLast), ones, size);
    lo.output(3, lo.b.cast(counts, DType::kInt64));
  }
  return first;
}

// The indices (i32) that sort a list in ascending order.
Val ascending_order(Lowering& lo, Val list, Val count) {
  const bool is_float = stream::is_float(lo.dtype(list));
  Val reversed = is_float ? lo.b.neg(list) : lo.b.sub(lo.b.scalar_like(-1, list), list);  // -1 - x cannot overflow
  return lo.b.top_k(reversed, count)[1];
}

void unique_elements(Lowering& lo, Val x, bool sorted) {
  if (sorted && !stream::is_float(lo.dtype(x)) && !stream::is_signed_int(lo.dtype(x)))
    lo.unsupported("sorted Unique of " + std::string(stream::dtype_name(lo.dtype(x))) + " is not supported");
  UniqueIndices found;
  found.n = lo.b.graph.symbols.product(lo.shape(x));
  const Dim all[] = {found.n};
  x = reshape_to(lo, x, all);
  std::vector<Val> pair = lo.b.ops(Kind::kUnique, {x}, core::IndexOptions{DType::kInt32}, 2);
  Val unique = pair[0];
  found.places = pair[1];
  found.count = lo.b.reshape(lo.b.shape_of(unique), {});
  if (sorted) {
    Val order = ascending_order(lo, unique, found.count);
    // The inverse permutation: the argsort of the argsort.
    found.places = lo.b.gather(ascending_order(lo, order, found.count), found.places, 0);
    unique = lo.b.gather(unique, order, 0);
  }
  lo.output(0, unique);
  set_index_outputs(lo, found);
}

// For rows [n, m]: whether row i (down) is lexicographically less than row j (across).
Val rows_before(Lowering& lo, Val down, Val across, Val differ) {
  const int last[] = {2};
  Val earlier = lo.b.cumsum(lo.b.cast(differ, DType::kInt32), 2, true, false);  // differences before this column
  Val decides = lo.b.equal(earlier, lo.b.i32_scalar(0));
  return lo.b.reduce_any(lo.b.logical_and(lo.b.less(down, across), decides), last, false);
}

void unique_slices(Lowering& lo, Val x, int axis, bool sorted) {
  Builder& b = lo.b;
  Perm front = stream::identity_perm(lo.rank(x));
  std::rotate(front.begin(), front.begin() + axis, front.begin() + axis + 1);
  Val slices = b.transpose(x, front);
  UniqueIndices found;
  found.n = b.dim(slices, 0);
  const std::span<const Dim> dims(lo.shape(slices));
  const Dim m = b.graph.symbols.product(dims.subspan(1));
  const Dim as_column[] = {found.n, 1, m}, as_row[] = {1, found.n, m};
  Val compared = lo.dtype(x) == DType::kBool ? b.cast(slices, DType::kInt32) : slices;
  Val down = reshape_to(lo, compared, as_column), across = reshape_to(lo, compared, as_row);
  Val differ = b.not_equal(down, across);
  const int columns[] = {2}, rows[] = {0};

  Val like = b.cast(b.logical_not(b.reduce_any(differ, columns, false)), DType::kInt32);
  Val first_like = b.arg_max(like, 1, DType::kInt32);  // the first row that is equal
  Val is_first = b.equal(first_like, iota(lo, found.n, DType::kInt32));
  found.count = b.sum(b.cast(is_first, DType::kInt32), rows, false);
  if (sorted) {
    const Val counts = b.unsqueeze(is_first, kLast);
    Val counted = b.logical_and(rows_before(lo, down, across, differ), counts);
    found.places = b.sum(b.cast(counted, DType::kInt32), rows, false);
  } else {
    found.places = b.gather(b.cumsum(b.cast(is_first, DType::kInt32), 0, true, false), first_like, 0);
  }
  Val unique = b.gather(slices, set_index_outputs(lo, found), 0);
  lo.output(0, b.transpose(unique, stream::inverse(front)));
}

}  // namespace

void lower_unique(Lowering& lo) {
  Val x = lo.input(0);
  const bool sorted = lo.attr_i("sorted", 1) == 1;
  if (!lo.has_attr("axis")) return unique_elements(lo, x, sorted);
  const int axis = lo.axis(lo.need_attr_i("axis"), lo.rank(x));
  if (lo.rank(x) == 1)
    unique_elements(lo, x, sorted);
  else
    unique_slices(lo, x, axis, sorted);
}

}  // namespace lowtide::layout
