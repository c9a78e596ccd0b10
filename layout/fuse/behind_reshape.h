// SPDX-License-Identifier: Apache-2.0
// The group of ops between a RESHAPE and the RESHAPEs that use their results, which lead_axes and merged_axes rewrite
// together.
#pragma once

#include <set>

#include "layout/fuse/rules.h"

namespace lowtide::layout {

class BehindReshape {
 protected:
  BehindReshape(Rewriter& rewriter, OpId reshape)
      : rewriter_(rewriter), source_(rewriter.op(reshape).inputs[0]), start_(rewriter.op(reshape).outputs[0]) {}

  // `join(op)` adds an op and its values to the sets below; false when it is in them already or does not belong there.
  template <typename Join>
  void grow(Join&& join) {
    values_.insert(start_);
    // A binary op can join only after both inputs have: repeat until nothing changes.
    for (bool grew = true; grew;) {
      grew = false;
      for (ValueId value : std::set<ValueId>(values_))
        for (OpId user : rewriter_.users(value)) grew = join(user) || grew;
    }
  }

  // Whether every value that leaves the group is used by RESHAPEs only.
  bool ends_in_reshapes() const;

  Rewriter& rewriter_;
  ValueId source_, start_;  // input and output of the RESHAPE
  std::set<ValueId> values_;
  std::set<OpId> ops_;
};

}  // namespace lowtide::layout
