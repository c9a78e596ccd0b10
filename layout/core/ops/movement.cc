// SPDX-License-Identifier: Apache-2.0
// The rows of ops that move elements without computing: joined from concat.cc, slice.cc, pad.cc, gather.cc, fill.cc.
#include <vector>

#include "layout/core/ops/axes.h"

namespace lowtide::core {

std::span<const Traits> movement_traits() {
  static const std::vector<Traits> rows = [] {
    std::vector<Traits> all;
    for (std::span<const Traits> part : {concat_traits(), slice_traits(), pad_traits(), gather_traits(), fill_traits()})
      all.insert(all.end(), part.begin(), part.end());
    // Built by region.cc, not by inference; what the graphs inside make of an axis order is theirs, so they stay fixed.
    all.push_back({.kind = Kind::kIf});
    all.push_back({.kind = Kind::kWhile});
    return all;
  }();
  return rows;
}

}  // namespace lowtide::core
