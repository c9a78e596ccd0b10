// SPDX-License-Identifier: Apache-2.0
// Transpose.
#include <algorithm>
#include <string>
#include <vector>

#include "layout/lower/lowering.h"

namespace lowtide::layout {
void lower_transpose(Lowering& lo) {
  Val x = lo.input(0);
  Perm perm = stream::identity_perm(lo.rank(x));
  if (auto given = lo.attr_ints("perm")) {
    std::vector<int64_t> sorted = *given;  // not narrowed before the check
    std::sort(sorted.begin(), sorted.end());
    if (!std::equal(sorted.begin(), sorted.end(), perm.begin(), perm.end()))
      lo.malformed("attribute 'perm' must be a permutation of 0.." + std::to_string(static_cast<int>(perm.size()) - 1) +
                   "; it is " + stream::to_string(*given));
    perm.assign(given->begin(), given->end());
  } else {
    std::reverse(perm.begin(), perm.end());
  }
  lo.output(0, lo.b.transpose(x, perm));
}

}  // namespace lowtide::layout
