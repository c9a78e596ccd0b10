// SPDX-License-Identifier: Apache-2.0
// TopK. TOPK_V2 works along the last axis and finds the largest elements only. Among equal elements ONNX and TFLite
// take the first.
#include <fmt/format.h>

#include "layout/lower/elementwise.h"

namespace lowtide::layout {
// `sorted` = 0 allows any order, so the result is always sorted.
void lower_top_k(Lowering& lo) {
  Builder& b = lo.b;
  Val x = lo.input(0);
  if (lo.rank(x) == 0) lo.malformed("input 0 must have rank 1 or more; it is a scalar");
  const int axis = lo.axis(lo.attr_i("axis", -1), lo.rank(x));
  const bool largest = lo.opset() < 11 || lo.attr_i("largest", 1) != 0;
  if (lo.opset() >= 11) lo.attr_i("sorted", 1);
  if (auto known = lo.opset() < 10 ? std::nullopt : lo.ints(lo.input(1)))
    if (known->size() != 1 || (*known)[0] < 0 || (*known)[0] > INT32_MAX)
      lo.misfit(known->size() == 1 ? fmt::format("input 1 ('K') must be from 0 to 2^31 - 1; it is {}", (*known)[0])
                                   : fmt::format("input 1 ('K') must have one element; it has shape {}",
                                                 stream::to_string(lo.shape(lo.input(1)))));
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

}  // namespace lowtide::layout
