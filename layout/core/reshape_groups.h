// SPDX-License-Identifier: Apache-2.0
// How the axes of a tensor correspond across a reshape: [2,3,4,5] -> [2,12,5] keeps axis 0 and the last, and merges the
// two between. A permutation passes a reshape when it keeps merged axes together and in order.
//
// The trap: axes of extent 1 move no bytes and may be anywhere, so they are no constraint. They are paired where both
// sides have one in the same place, so that a channels-last order passes [1,C,H,W] -> [1,C,H*W].
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "layout/core/symbols.h"
#include "stream/shape.h"

namespace lowtide::core {

// Axes of both sides that hold the same elements; in order on either side. One of the lists may be empty (extent 1).
struct ReshapeGroup {
  std::vector<int> in, out;
};
// The finest groups. Symbolic extents are equal when they are the same symbol; what cannot be matched ends in one
// group.
std::vector<ReshapeGroup> reshape_groups(Symbols& symbols, std::span<const Dim> in, std::span<const Dim> out);

// When the `in` side of a reshape is stored permuted by `perm`: the permutation of the `out` side with which the
// reshape of the permuted shapes says the same; nullopt when merged or split axes are torn apart.
std::optional<stream::Perm> perm_across_reshape(Symbols& symbols, std::span<const Dim> in, std::span<const Dim> out,
                                                const stream::Perm& perm);

}  // namespace lowtide::core
