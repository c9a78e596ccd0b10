// SPDX-License-Identifier: Apache-2.0
// A defect of the GPU delegate of LiteRT 2.3, found with small files (docs/gpu.md): it computes
// elementwise ops together with the op before them, where that has several results with the first of these only. If
// such an op also reads another result of the same SPLIT or UNPACK, which is not computed yet, it computes zeros:
//
//     a, b = SPLIT x; y = MUL b, a            a, b = SPLIT x; s = LOGISTIC a; y = MUL b, s
#pragma once

#include <set>
#include <vector>

#include "layout/core/rewriter.h"

namespace lowtide::layout {

// Whether the delegate would compute the users of an op's results wrongly. `first`: the values that stand for its first
// result; `others`: those of the others.
bool are_parts_misread(core::Rewriter& rewriter, std::vector<core::ValueId> first,
                       const std::set<core::ValueId>& others);

}  // namespace lowtide::layout
