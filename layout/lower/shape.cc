// SPDX-License-Identifier: Apache-2.0
// Shape, Size.
#include <algorithm>

#include "layout/lower/lowering.h"

namespace lowtide::layout {
void lower_shape(Lowering& lo) {
  Val x = lo.input(0);
  const int64_t rank = lo.rank(x);
  int64_t start = 0, end = rank;
  if (lo.opset() >= 15) {
    auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
    start = clamp(lo.attr_i("start", 0));
    end = clamp(lo.attr_i("end", rank));
  }
  const Dim count = std::max<int64_t>(end - start, 0);
  lo.output(0, lo.b.slice(lo.b.shape_of(x, DType::kInt64), {&start, 1}, {&count, 1}));
}

void lower_size(Lowering& lo) {
  Val x = lo.input(0);
  const Dim count = lo.b.graph.symbols.product(lo.shape(x));
  if (!core::is_symbol(count)) {
    lo.output(0, Val{lo.b.graph.add_ints({&count, 1}, DType::kInt64, {})});
    return;
  }
  const int axis = 0;
  lo.output(0, lo.b.reduce_prod(lo.b.shape_of(x, DType::kInt64), {&axis, 1}, false));
}

}  // namespace lowtide::layout
