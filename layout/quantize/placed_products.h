// SPDX-License-Identifier: Apache-2.0
// NEG and DIV by constants while grids are placed: products, which integer kernels compute, where other ops in integers
// are on both sides. Elsewhere they stay what they are, because a product would round what nothing else rounds.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "layout/quantize/calibrated.h"
#include "layout/quantize/grid.h"

namespace lowtide::layout {

class PlacedProducts {
 public:
  PlacedProducts(Graph& graph, const Calibrated& calibrated) : graph_(graph), calibrated_(calibrated) {}

  // Writes them as products, where their data and result have a range. `tables`: not those that a table can compute,
  // which is exact.
  void write(const std::function<bool(ValueId)>& is_known, bool tables);

  // Products that no op in integers gives data, or whose result none reads. Where only integers are wanted, an input of
  // the model is given, and an output is read. `computes`: in an integer kernel. `group_of`: values that share a grid.
  std::vector<OpId> lone(const std::function<bool(OpId)>& computes,
                         const std::function<ValueId(ValueId)>& group_of) const;

  // Those that are not in integers become what they were.
  void restore(const std::function<bool(OpId)>& computes);

 private:
  Graph& graph_;
  const Calibrated& calibrated_;
  std::map<OpId, Op> before_;
};

}  // namespace lowtide::layout
