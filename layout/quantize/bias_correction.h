// SPDX-License-Identifier: Apache-2.0
// What rounding the weights adds to an operator's results on average, taken off its bias again:
// b' = b - sum over the data's channels and the taps of (rounded w - w) * E[x].
//
// Where it is known by how much the data's means are off, d = E[x of integers] - E[x], that is taken off as well:
// sum of rounded w * d.
#pragma once

#include <map>

#include "layout/quantize/calibrated.h"

namespace lowtide::layout {

class BiasCorrection {
 public:
  // `floats`: the floats of constants that became integers, by their recipes; the biases that are replaced join them.
  BiasCorrection(Graph& graph, const Calibrated& calibrated, std::map<const stream::Recipe*, stream::RecipeRef>& floats)
      : graph_(graph), calibrated_(calibrated), floats_(floats) {}

  // Reads the weights once. Does nothing for an op without weights, and where the means of its data are not known.
  void correct(OpId op);

 private:
  const CalibratedTensor* tensor_of(ValueId data, size_t channels) const;

  Graph& graph_;
  const Calibrated& calibrated_;
  std::map<const stream::Recipe*, stream::RecipeRef>& floats_;
};

}  // namespace lowtide::layout
