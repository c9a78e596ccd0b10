// SPDX-License-Identifier: Apache-2.0
#include "layout/fuse/behind_reshape.h"

#include <algorithm>

namespace lowtide::layout {

bool BehindReshape::ends_in_reshapes() const {
  auto stays = [&](ValueId value, OpId user) {
    return ops_.contains(user) || (rewriter_.op(user).kind == Kind::kReshape && rewriter_.op(user).inputs[0] == value);
  };
  return std::all_of(values_.begin(), values_.end(), [&](ValueId value) {
    const auto& users = rewriter_.users(value);
    // A graph output is a use without a user.
    return rewriter_.uses(value) == static_cast<int>(users.size()) &&
           std::all_of(users.begin(), users.end(), [&](OpId user) { return stays(value, user); });
  });
}

}  // namespace lowtide::layout
