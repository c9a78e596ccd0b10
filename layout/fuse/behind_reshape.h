// SPDX-License-Identifier: Apache-2.0
// The ops behind a RESHAPE that do not mind it, up to other RESHAPEs: what lead_axes and merged_axes rewrite as one.
#pragma once

#include <set>

#include "layout/fuse/rewriter.h"

namespace lowtide::layout {

class BehindReshape {
 protected:
  BehindReshape(Rewriter& rewriter, OpId reshape)
      : rewriter_(rewriter), source_(rewriter.op(reshape).inputs[0]), start_(rewriter.op(reshape).outputs[0]) {}

  // `join(op)` puts an op and its values into the sets below; false when it is there or does not belong there.
  template <typename Join>
  void grow(Join&& join) {
    values_.insert(start_);
    // A binary op may join only after both of its inputs have: look again until nothing new is found.
    for (bool grew = true; grew;) {
      grew = false;
      for (ValueId value : std::set<ValueId>(values_))
        for (OpId user : rewriter_.users(value)) grew = join(user) || grew;
    }
  }

  // Every value that leaves the region goes into a RESHAPE, which does not mind.
  bool ends_in_reshapes() const;

  Rewriter& rewriter_;
  ValueId source_, start_;  // what the RESHAPE takes and makes
  std::set<ValueId> values_;
  std::set<OpId> ops_;
};

}  // namespace lowtide::layout
