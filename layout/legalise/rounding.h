// SPDX-License-Identifier: Apache-2.0
// QUANTIZE and DEQUANTIZE on grids that no kernel has (u16, and i16 with a zero point), written out as the formula that
// ONNX defines: divide, round half to even, keep in range, add the zero point.
#pragma once

#include <map>

#include "layout/core/builder.h"

namespace lowtide::layout {

class Rounding {
 public:
  explicit Rounding(core::Builder& builder) : b_(builder) {}

  // Whether expand() writes `op` out: a QUANTIZE or DEQUANTIZE on such a grid, or a BITCAST that drops it.
  bool takes(const core::Op& op) const;
  // Adds the ops that compute `op` to the graph, except for the last one, which is returned: it makes op's output.
  core::Op expand(const core::Op& op);

 private:
  // A quantized value as floats: round(x / scale), kept in range, and the same with the zero point added.
  struct Levels {
    core::Val centred, stored;
  };

  core::Builder& b_;
  std::map<core::ValueId, Levels> levels_;
};

}  // namespace lowtide::layout
