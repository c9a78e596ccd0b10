// SPDX-License-Identifier: Apache-2.0
// ReverseSequence.
#include <fmt/format.h>

#include <string>

#include "layout/lower/lowering.h"

namespace lowtide::layout {
void lower_reverse_sequence(Lowering& lo) {
  Val x = lo.input(0);
  const int64_t time = lo.attr_i("time_axis", 0), batch = lo.attr_i("batch_axis", 1);
  if (!(time == 0 && batch == 1) && !(time == 1 && batch == 0))
    lo.malformed("time_axis and batch_axis must be 0 and 1 in either order; they are " + std::to_string(time) +
                 " and " + std::to_string(batch));
  const core::ReverseSequenceOptions options{static_cast<int>(time), static_cast<int>(batch)};
  if (auto lengths = lo.ints(lo.input(1)); lengths && !core::is_symbol(lo.b.dim(x, options.sequence_axis)))
    for (int64_t length : *lengths)
      if (length < 0 || length > lo.b.dim(x, options.sequence_axis))
        lo.malformed(fmt::format("sequence_lens must be from 0 to {}; it contains {}",
                                 lo.b.dim(x, options.sequence_axis), length));
  lo.output(0, lo.b.op(Kind::kReverseSequence, {x, lo.input(1)}, options));
}

}  // namespace lowtide::layout
