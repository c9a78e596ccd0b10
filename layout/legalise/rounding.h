// SPDX-License-Identifier: Apache-2.0
// QUANTIZE of floats, exactly. The kernels divide or multiply by the inverse, and round halves to even or away from
// zero, depending on who runs them and on where an element stands: one step off now and then. So where no quantized
// kernel takes its result, it is written out, as the formula ONNX and TFLite both give for it.
#pragma once

#include <map>

#include "layout/core/builder.h"

namespace lowtide::layout {

class Rounding {
 public:
  explicit Rounding(core::Builder& builder) : b_(builder) {}

  // Whether `op` is to be written out by expand(): a QUANTIZE of floats by one scale, or what reads its result.
  bool takes(const core::Op& op) const;
  // Adds what `op` stands for to the graph, but for the last op, which is returned: it gives op's output.
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
