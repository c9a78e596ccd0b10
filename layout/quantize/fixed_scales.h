// SPDX-License-Identifier: Apache-2.0
// LOGISTIC, SOFTMAX and LOG_SOFTMAX have one scale in 8 bits, whatever their results are. It may have no number for
// the least results, or no more than a few steps for all of them: SOFTMAX of 600 scores that are nearly equal.
#pragma once

#include <string>
#include <vector>

#include "layout/quantize/known_ranges.h"

namespace lowtide::layout {

class FixedScales {
 public:
  // `graph` is tidy.
  FixedScales(Graph& graph, const Calibrated& calibrated);

  // Why results of such an op need another grid; empty: they do not, or calibration did not see them. `least`: the
  // least number that a scale of their own would have.
  std::string reason_against(ValueId result, const TensorGrid& grid, double least) const;

 private:
  // Of what was seen.
  struct Size {
    double most = 0, mean_square = 0;
  };
  static Size larger(const Size& a, const Size& b);

  Graph& graph_;
  const Calibrated& calibrated_;
  std::vector<Size> sizes_;  // by value
};

}  // namespace lowtide::layout
