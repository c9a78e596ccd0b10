// SPDX-License-Identifier: Apache-2.0
// Operators that look for the largest elements or run along an axis: ArgMax, ArgMin, TopK, CumSum. TOPK_V2 knows the
// last axis and the largest elements only; both take the first of equal elements.
#include <fmt/format.h>

#include "layout/lower/operands.h"

namespace lowtide::layout {

namespace {

// Reverses the order of the elements, and again gives back x. (-x overflows for the smallest integer.)
Val reversed_order(Builder& b, Val x) { return stream::is_integer(b.dtype(x)) ? inverted_bits(b, x) : b.neg(x); }

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
  const bool keep_dims = lo.attr_i("keepdims", 1) != 0;
  const bool last_of_equals = lo.opset() >= 12 && lo.attr_i("select_last_index", 0) != 0;
  if (last_of_equals) x = b.reverse(x, {&axis, 1});
  const DType dtype = lo.dtype(x);
  if (dtype == DType::kUint32) x = b.cast(x, DType::kInt64);
  if (dtype == DType::kUint64) lo.unsupported("no kernel orders uint64");
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

// `sorted` = 0 allows any order, the sorted one too.
void lower_top_k(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.input(0);
  if (lo.rank(x) == 0) lo.malformed("a scalar has no axis to look along");
  const int axis = lo.axis(lo.attr_i("axis", -1), lo.rank(x));
  const bool largest = lo.opset() < 11 || lo.attr_i("largest", 1) != 0;
  if (lo.opset() >= 11) lo.attr_i("sorted", 1);
  if (auto known = lo.opset() < 10 ? std::nullopt : lo.ints(lo.input(1)))
    if (known->size() != 1 || (*known)[0] < 0 || (*known)[0] > INT32_MAX) lo.malformed("k is no number of elements");
  Val k = lo.opset() < 10 ? b.i32_scalar(lo.need_attr_i("k")) : b.cast(b.reshape(lo.input(1), Shape{}), DType::kInt32);
  Perm last;
  for (int i = 0; i < lo.rank(x); ++i)
    if (i != axis) last.push_back(i);
  last.push_back(axis);
  Val rows = b.transpose(x, last);
  std::vector<Val> top = b.top_k(largest ? rows : reversed_order(b, rows), k);
  Val values = largest ? top[0] : reversed_order(b, top[0]);
  lo.output(0, b.transpose(values, stream::inverse(last)));
  lo.output(1, b.cast(b.transpose(top[1], stream::inverse(last)), DType::kInt64));
}

void lower_cum_sum(Lowering& lo) {
  Val x = lo.input(0);
  const std::vector<int64_t> axis = lo.need_ints(lo.input(1), "axis");
  if (axis.size() != 1) lo.malformed(fmt::format("CumSum takes one axis, not {}", axis.size()));
  const bool exclusive = lo.attr_i("exclusive", 0) != 0, reverse = lo.attr_i("reverse", 0) != 0;
  lo.output(0, lo.b.cumsum(x, lo.axis(axis[0], lo.rank(x)), exclusive, reverse));
}

}  // namespace lowtide::layout
