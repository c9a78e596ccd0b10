// SPDX-License-Identifier: Apache-2.0
// What stands behind RESHAPEs: an op that is fused into the one before them, and the group of ops between a RESHAPE and
// the RESHAPEs that use their results, which lead_axes and merged_axes rewrite together.
#pragma once

#include <set>
#include <string>

#include "layout/fuse/rules.h"

namespace lowtide::layout {

// The value that `id` is a RESHAPE of, or a RESHAPE of a RESHAPE and so on, where none of them has another use; else
// `id`. What is done to single elements of `id` can be done to those of this value.
ValueId before_reshapes(Rewriter& rewriter, ValueId id);

// The name of a value that is computed anew moves to the RESHAPE `last` of it; what had the names between is gone.
void name_last(Rewriter& rewriter, ValueId first, ValueId last, std::string name);

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
