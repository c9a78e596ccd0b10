// SPDX-License-Identifier: Apache-2.0
// CumSum.
#include <fmt/format.h>

#include "layout/lower/lowering.h"

namespace lowtide::layout {
void lower_cum_sum(Lowering& lo) {
  Val x = lo.input(0);
  const bool exclusive = lo.attr_i("exclusive", 0) != 0, reverse = lo.attr_i("reverse", 0) != 0;
  const std::optional<std::vector<int64_t>> axis = lo.ints(lo.input(1));
  if (!axis) {  // known at run time only: the kernel reads it then, negative ones too
    Val place = lo.b.cast(lo.b.reshape(lo.input(1), {}), DType::kInt32);
    return lo.output(0, lo.b.op(Kind::kCumsum, {x, place}, core::CumsumOptions{exclusive, reverse}));
  }
  if (axis->size() != 1) lo.malformed(fmt::format("input 1 ('axis') must have one element; it has {}", axis->size()));
  lo.output(0, lo.b.cumsum(x, lo.axis((*axis)[0], lo.rank(x)), exclusive, reverse));
}

}  // namespace lowtide::layout
