// SPDX-License-Identifier: Apache-2.0
// CumSum.
#include <fmt/format.h>

#include "layout/lower/lowering.h"

namespace lowtide::layout {
void lower_cum_sum(Lowering& lo) {
  Val x = lo.input(0);
  const std::vector<int64_t> axis = lo.need_ints(lo.input(1), "axis");
  if (axis.size() != 1) lo.malformed(fmt::format("input 1 ('axis') must have one element; it has {}", axis.size()));
  const bool exclusive = lo.attr_i("exclusive", 0) != 0, reverse = lo.attr_i("reverse", 0) != 0;
  lo.output(0, lo.b.cumsum(x, lo.axis(axis[0], lo.rank(x)), exclusive, reverse));
}

}  // namespace lowtide::layout
