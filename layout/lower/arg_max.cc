// SPDX-License-Identifier: Apache-2.0
// ArgMax, ArgMin. Among equal elements ONNX and TFLite take the first.
#include "layout/lower/elementwise.h"

namespace lowtide::layout {
namespace {

// ARG_MAX and ARG_MIN have no 64-bit kernel; TOPK_V2 has.
Val arg_by_top_k(Builder& b, Val x, int axis, bool largest) {
  Perm last;
  for (int i = 0; i < b.rank(x); ++i)
    if (i != axis) last.push_back(i);
  last.push_back(axis);
  Val rows = b.transpose(x, last);
  Val top = b.top_k(largest ? rows : reversed_order(b, rows), b.i32_scalar(1))[1];
  const int back = b.rank(top) - 1;
  return b.cast(b.squeeze(top, {&back, 1}), DType::kInt64);
}

void lower_arg(Lowering& lo, bool largest) {
  Builder& b = lo.b;
  Val x = lo.input(0);
  const int axis = lo.axis(lo.attr_i("axis", 0), lo.rank(x));
  const bool keep_dims = lo.attr_i("keepdims", 1) == 1;
  const bool last_of_equals = lo.opset() >= 12 && lo.attr_i("select_last_index", 0) != 0;
  if (last_of_equals) x = b.reverse(x, {&axis, 1});
  const DType dtype = lo.dtype(x);
  if (dtype == DType::kUint32) x = b.cast(x, DType::kInt64);
  if (dtype == DType::kUint64) lo.unsupported("no TFLite kernel compares uint64");
  Val at = lo.dtype(x) == DType::kInt64 ? arg_by_top_k(b, x, axis, largest)
           : largest                    ? b.arg_max(x, axis, DType::kInt64)
                                        : b.arg_min(x, axis, DType::kInt64);
  if (last_of_equals) {
    const Dim last = b.graph.symbols.sub(b.dim(x, axis), 1);
    Val from = b.reshape(b.dims({&last, 1}, DType::kInt64), Shape{});
    at = b.sub(from, at);
  }
  lo.output(0, keep_dims ? b.unsqueeze(at, {&axis, 1}) : at);
}

}  // namespace

void lower_arg_max(Lowering& lo) { lower_arg(lo, true); }
void lower_arg_min(Lowering& lo) { lower_arg(lo, false); }

}  // namespace lowtide::layout
