// SPDX-License-Identifier: Apache-2.0
// QUANTIZE of floats, exactly. The kernels divide or multiply by the inverse, and round halves to even or away from
// zero, depending on the delegate and on the position of an element: results are off by one step now and then. Where no
// quantized kernel takes the result, QUANTIZE is written as the formula that ONNX and TFLite both define.
#pragma once

#include <map>

#include "layout/core/builder.h"

namespace lowtide::layout {

class Rounding {
 public:
  explicit Rounding(core::Builder& builder) : b_(builder) {}

  // Whether expand() writes `op` out: a QUANTIZE of floats by one scale, or what reads its result.
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
