// SPDX-License-Identifier: Apache-2.0
// Gather, GatherElements, GatherND, Compress.
//
// Differences: ONNX's indices may be negative, LiteRT's may not. GatherElements is a GATHER with all other axes as
// batch axes; GatherND's batch_dims become coordinates in front of each index.
#include <string>

#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

// Moves `axis` to the end; the inverse permutation moves it back.
Perm to_the_end(int axis, int rank) {
  Perm perm;
  for (int i = 0; i < rank; ++i)
    if (i != axis) perm.push_back(i);
  perm.push_back(axis);
  return perm;
}

void need_integers(Lowering& lo, Val indices) {
  if (lo.dtype(indices) != DType::kInt32 && lo.dtype(indices) != DType::kInt64)
    lo.malformed("input 1 ('indices') must be int32 or int64; it is " +
                 std::string(stream::dtype_name(lo.dtype(indices))));
}

// The coordinate of batch axis `axis` beside every index: [.., 1] in the indices' shape.
Val batch_coordinate(Lowering& lo, Val indices, size_t axis) {
  Shape across(lo.shape(indices).size(), 1), full = lo.shape(indices);
  across[axis] = full[axis];
  full.back() = 1;
  return lo.b.broadcast_to(reshape_to(lo, iota(lo, full[axis], lo.dtype(indices)), across), full);
}

}  // namespace

void lower_gather(Lowering& lo) {
  Val data = lo.input(0), indices = lo.input(1);
  need_integers(lo, indices);
  const int axis = lo.axis(lo.attr_i("axis", 0), lo.rank(data));
  lo.output(0, lo.b.gather(data, non_negative_indices(lo, indices, lo.b.dim(data, axis)), axis));
}

void lower_gather_elements(Lowering& lo) {
  Val data = lo.input(0), indices = lo.input(1);
  need_integers(lo, indices);
  const int rank = lo.rank(data);
  if (lo.rank(indices) != rank || rank == 0)
    lo.malformed("data and indices must have the same rank, 1 or more; the ranks are " + std::to_string(rank) +
                 " and " + std::to_string(lo.rank(indices)));
  const int axis = lo.axis(lo.attr_i("axis", 0), rank);
  indices = non_negative_indices(lo, indices, lo.b.dim(data, axis));
  // Along the other axes the indices may cover only the first part of the data.
  std::vector<int64_t> begin(static_cast<size_t>(rank), 0);
  std::vector<Dim> size(begin.size(), -1);
  for (int i = 0; i < rank; ++i) {
    const auto a = static_cast<size_t>(i);
    const Dim have = lo.shape(data)[a], used = lo.shape(indices)[a];
    if (i == axis || have == used) continue;
    if (!core::is_symbol(have) && !core::is_symbol(used) && used > have)
      lo.malformed("axis " + std::to_string(i) + " of the indices has " + std::to_string(used) +
                   " elements, that of the data only " + std::to_string(have));
    size[a] = used;
  }
  data = lo.b.slice(data, begin, size);
  const Perm perm = to_the_end(axis, rank);
  indices = lo.b.transpose(indices, perm);
  Val picked = lo.b.gather(lo.b.transpose(data, perm), indices, rank - 1, rank - 1);
  lo.output(0, lo.b.transpose(picked, stream::inverse(perm)));
}

void lower_gather_nd(Lowering& lo) {
  Val data = lo.input(0), indices = lo.input(1);
  need_integers(lo, indices);
  const int64_t batch_dims = lo.opset() >= 12 ? lo.attr_i("batch_dims", 0) : 0;
  if (lo.rank(data) == 0 || lo.rank(indices) == 0) lo.malformed("data and indices must not be scalars");
  const int64_t depth = lo.need_static(lo.shape(indices).back(), "the last dimension of the indices");
  if (batch_dims < 0 || batch_dims >= lo.rank(indices) || depth < 1 || depth > lo.rank(data) - batch_dims)
    lo.malformed("batch_dims " + std::to_string(batch_dims) + " and index tuples of " + std::to_string(depth) +
                 " do not fit data of rank " + std::to_string(lo.rank(data)) + " and indices of rank " +
                 std::to_string(lo.rank(indices)));
  const std::span<const Dim> dims(lo.shape(data));
  const std::vector<Dim> indexed(dims.begin() + batch_dims, dims.begin() + batch_dims + depth);
  std::vector<Val> parts;
  for (size_t axis = 0; axis < static_cast<size_t>(batch_dims); ++axis)
    if (const Dim have = dims[axis], used = lo.shape(indices)[axis];
        stream::is_static(have) && stream::is_static(used) && have != used)
      lo.malformed("batch axis " + std::to_string(axis) + " of the data has " + std::to_string(have) +
                   " elements, that of the indices " + std::to_string(used));
  for (int64_t axis = 0; axis < batch_dims; ++axis)
    parts.push_back(batch_coordinate(lo, indices, static_cast<size_t>(axis)));
  parts.push_back(non_negative_tuples(lo, indices, indexed));
  lo.output(0, lo.b.gather_nd(data, lo.b.concat(parts, lo.rank(indices) - 1)));
}

void lower_compress(Lowering& lo) {
  Val x = lo.input(0), condition = lo.input(1);
  if (lo.rank(condition) != 1) {  // ONNX Runtime takes any rank, and counts the elements
    const Dim all[] = {lo.b.graph.symbols.product(lo.shape(condition))};
    condition = reshape_to(lo, condition, all);
  }
  int axis = 0;
  if (lo.has_attr("axis")) {
    axis = lo.axis(lo.need_attr_i("axis"), lo.rank(x));
  } else {
    const Dim all[] = {lo.b.graph.symbols.product(lo.shape(x))};
    x = reshape_to(lo, x, all);
  }
  // The part of a condition that is longer than the axis has no effect.
  const Dim have = lo.b.dim(x, axis), asked = lo.b.dim(condition, 0);
  if (have != asked) {
    const int64_t begin = 0;
    const Dim used = lo.b.graph.symbols.min(have, asked);
    if (used != asked) condition = lo.b.slice(condition, {&begin, 1}, {&used, 1});
  }
  const int last[] = {1};
  lo.output(0, lo.b.gather(x, lo.b.squeeze(lo.b.where(condition), last), axis));
}

}  // namespace lowtide::layout
