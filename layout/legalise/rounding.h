// SPDX-License-Identifier: Apache-2.0
// QUANTIZE and DEQUANTIZE written out as the formula that ONNX defines: divide, round half to even, keep in range, add
// the zero point. The kernels multiply by the inverse, round halves in different ways, and turn infinities into 0: off
// by one step now and then. So they are written out on grids that no kernel takes (u16, and i16 with a zero point), and
// in graphs without integer kernels unless all is to be integers. Where floats may have 2^31 steps or more, which the
// kernels give the wrong end of the range, a MINIMUM limits them first.
#pragma once

#include <map>
#include <set>

#include "layout/core/builder.h"

namespace lowtide::layout {

class Rounding {
 public:
  // Looks whether any op of the graph is computed in integers. `only_integers`: the kernels are taken in any case.
  explicit Rounding(core::Builder& builder, bool only_integers = false);

  // Whether expand() writes `op` out, or limits its floats: a QUANTIZE of floats by one scale, or what reads its
  // result.
  bool takes(const core::Op& op) const;
  // Adds the ops that compute `op` to the graph, except for the last one, which is returned: it makes op's output.
  core::Op expand(const core::Op& op);

 private:
  // A quantized value as floats: round(x / scale), kept in range, and the same with the zero point added.
  struct Levels {
    core::Val centred, stored;
    bool may_be_minus_zero;  // and an op of the graph would see it
  };

  // Whether the formula takes the place of a QUANTIZE, not the kernel behind a MINIMUM.
  bool is_formula(const core::Op& quantize) const;

  core::Builder& b_;
  bool any_integer_kernel_ = false;
  bool zeros_differ_ = false;  // some op of the graph gives another result for -0 than for 0
  std::map<core::ValueId, Levels> levels_;
  std::set<core::ValueId> limited_;  // results of QUANTIZEs that have their MINIMUM
};

}  // namespace lowtide::layout
