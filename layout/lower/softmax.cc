// SPDX-License-Identifier: Apache-2.0
// Softmax, LogSoftmax, Hardmax. TFLite's kernels work along the last axis; ONNX's operators from opset 13 on along any
// axis. Before opset 13 the tensor is flattened to a matrix at `axis`, and they work along its rows: over all axes from
// `axis` on.
#include "layout/lower/softmax.h"

#include <algorithm>

namespace lowtide::layout {

namespace {

constexpr int64_t kSoftmaxOfOneAxis = 13;  // the first opset of it

Perm to_last(int axis, int rank) {
  Perm perm;
  for (int i = 0; i < rank; ++i)
    if (i != axis) perm.push_back(i);
  perm.push_back(axis);
  return perm;
}

template <typename F>
Val along_last_axis(Builder& b, Val x, int axis, F&& function) {
  const Perm perm = to_last(axis, b.rank(x));
  return b.transpose(function(b.transpose(x, perm)), stream::inverse(perm));
}

// Applies `function`, which works along the last axis, by the rules of the opset to the node's axis.
template <typename F>
Val along_axis(Lowering& lo, Val x, int64_t opset, int64_t default_axis, F&& function) {
  Builder& b = lo.b;
  const bool flattens = opset < kSoftmaxOfOneAxis;
  const int64_t given = lo.attr_i("axis", default_axis);
  if (lo.rank(x) == 0) return b.reshape(function(b.reshape(x, {1})), Shape{});
  if (!flattens) return along_last_axis(b, x, lo.axis(given, lo.rank(x)), function);

  // One past the last axis is allowed: rows of one element.
  const int rank = lo.rank(x);
  const int first = given == rank ? rank : lo.axis(given, rank);
  std::vector<int> long_axes;  // the axes of a row with more than one element
  for (int i = first; i < rank; ++i)
    if (b.dim(x, i) != 1) long_axes.push_back(i);
  if (long_axes.size() == 1) return along_last_axis(b, x, long_axes[0], function);
  const Shape shape = lo.shape(x);
  Shape rows(shape.begin(), shape.begin() + first);
  rows.push_back(b.graph.symbols.product(std::span(shape).subspan(static_cast<size_t>(first))));
  return b.reshape(function(b.reshape(x, rows)), shape);
}

int64_t default_axis(const Lowering& lo) { return lo.opset() < kSoftmaxOfOneAxis ? 1 : -1; }

}  // namespace

Val softmax_of(Lowering& lo, Val x, int64_t opset, int64_t default_axis) {
  return along_axis(lo, x, opset, default_axis, [&](Val rows) { return lo.b.softmax(rows); });
}

void lower_softmax(Lowering& lo) { lo.output(0, softmax_of(lo, lo.input(0), lo.opset(), default_axis(lo))); }

void lower_log_softmax(Lowering& lo) {
  lo.output(0, along_axis(lo, lo.input(0), lo.opset(), default_axis(lo), [&](Val x) { return lo.b.log_softmax(x); }));
}

// 1 at the first of the largest elements, 0 elsewhere.
void lower_hardmax(Lowering& lo) {
  lo.output(0, along_axis(lo, lo.input(0), lo.opset(), default_axis(lo), [&](Val x) {
              Builder& b = lo.b;
              Dim axis_size = b.dim(x, -1);
              Val depth = b.reshape(b.dims({&axis_size, 1}), Shape{});
              Val at = b.arg_max(x, b.rank(x) - 1, DType::kInt32);
              return b.one_hot(at, depth, b.scalar_like(1, x), b.scalar_like(0, x), -1);
            }));
}

}  // namespace lowtide::layout
