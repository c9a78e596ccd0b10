// SPDX-License-Identifier: Apache-2.0
// Sets of values that share one grid: a disjoint-set forest.
#pragma once

#include <numeric>
#include <vector>

#include "layout/quantize/grid.h"

namespace lowtide::layout {

class ValueGroups {
 public:
  explicit ValueGroups(size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), ValueId{0}); }
  ValueId of(ValueId id) {
    while (parent_[static_cast<size_t>(id)] != id) {
      ValueId& up = parent_[static_cast<size_t>(id)];
      up = parent_[static_cast<size_t>(up)];
      id = up;
    }
    return id;
  }
  void unite(ValueId a, ValueId b) { parent_[static_cast<size_t>(of(a))] = of(b); }

 private:
  std::vector<ValueId> parent_;
};

}  // namespace lowtide::layout
