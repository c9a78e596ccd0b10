// SPDX-License-Identifier: Apache-2.0
// Concat. At opset 1 its axis is 1 by default.
#include "layout/lower/lowering.h"

namespace lowtide::layout {
void lower_concat(Lowering& lo) {
  std::vector<Val> parts;
  for (size_t i = 0; i < lo.input_count(); ++i) parts.push_back(lo.input(i));
  const int rank = lo.rank(parts[0]);
  if (rank == 0) lo.malformed("scalars cannot be concatenated");
  const int axis = lo.axis(lo.opset() < 4 ? lo.attr_i("axis", 1) : lo.need_attr_i("axis"), rank);
  lo.output(0, lo.b.concat(parts, axis));
}

}  // namespace lowtide::layout
