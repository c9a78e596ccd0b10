// SPDX-License-Identifier: Apache-2.0
// Where, NonZero.
//
// Difference: the result of WHERE has one row per element, that of NonZero one row per axis.
#include "layout/lower/lowering.h"

namespace lowtide::layout {
void lower_where(Lowering& lo) { lo.output(0, lo.b.select(lo.input(0), lo.input(1), lo.input(2))); }

void lower_non_zero(Lowering& lo) {
  Val x = lo.input(0);
  if (lo.rank(x) == 0) x = lo.b.reshape(x, {1});  // as ONNX Runtime does
  lo.output(0, lo.b.transpose(lo.b.where(x), {1, 0}));
}

}  // namespace lowtide::layout
