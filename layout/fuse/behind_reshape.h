// SPDX-License-Identifier: Apache-2.0
// What stands behind RESHAPEs: an op that is fused into the one before them, and the group of ops between a RESHAPE and
// the RESHAPEs that use their results, which lead_axes and merged_axes rewrite together.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "layout/fuse/rules.h"

namespace lowtide::layout {

// The value that `id` is a RESHAPE of, or a RESHAPE of a RESHAPE and so on, where none of them has another use; else
// `id`. What is done to single elements of `id` can be done to those of this value.
ValueId before_reshapes(Rewriter& rewriter, ValueId id);

// The name of a value that is computed anew moves to the RESHAPE `last` of it; what had the names between is gone.
void name_last(Rewriter& rewriter, ValueId first, ValueId last, std::string name);

class BehindReshape {
 protected:
  enum class Join { kYes, kNotYet, kNever };  // kNotYet: it may when another of its inputs is in the group

  BehindReshape(Rewriter& rewriter, OpId reshape)
      : rewriter_(rewriter), source_(rewriter.op(reshape).inputs[0]), start_(rewriter.op(reshape).outputs[0]) {}

  // `join(op)`, for an op that uses a value of the group, adds it and its values to the sets below if it belongs there.
  // False, and the group is of no use, as soon as a value is used by something that is no RESHAPE and never joins, or
  // there are too many ops.
  template <typename Try>
  bool grow(Try&& join) {
    add_value(start_);
    while (!added_.empty() && ops_.size() < kMostOps) {
      const ValueId value = added_.back();
      added_.pop_back();
      if (is_output(value)) return false;
      for (const OpId user : rewriter_.users(value))
        if (!ops_.contains(user) && join(user) == Join::kNever && !is_reshape_of(value, user)) return false;
    }
    return added_.empty();
  }

  void add_value(ValueId id) {
    if (values_.insert(id).second) added_.push_back(id);
  }

  // Whether every value that leaves the group is used by RESHAPEs only.
  bool ends_in_reshapes() const;

  Rewriter& rewriter_;
  ValueId source_, start_;  // input and output of the RESHAPE
  std::set<ValueId> values_;
  std::set<OpId> ops_;

 private:
  // A group is sought behind each RESHAPE, so time grows with the product of their number and size. The largest that
  // was rewritten in 380 exports of networks has 48 ops.
  static constexpr size_t kMostOps = 256;

  bool is_output(ValueId id) const {
    return rewriter_.uses(id) != static_cast<int>(rewriter_.users(id).size());  // a use without a user
  }
  bool is_reshape_of(ValueId id, OpId user) const {
    return rewriter_.op(user).kind == Kind::kReshape && rewriter_.op(user).inputs[0] == id;
  }

  std::vector<ValueId> added_;  // whose users have not been looked at
};

}  // namespace lowtide::layout
