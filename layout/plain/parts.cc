// SPDX-License-Identifier: Apache-2.0
#include "layout/plain/parts.h"

#include <algorithm>
#include <utility>

#include "layout/core/builtin.h"

namespace lowtide::layout {

bool are_parts_misread(core::Rewriter& rewriter, std::vector<core::ValueId> first,
                       const std::set<core::ValueId>& others) {
  for (;;) {
    std::vector<core::OpId> users;
    for (const core::ValueId value : first) {
      if (rewriter.uses(value) != static_cast<int>(rewriter.users(value).size())) return false;  // an output too
      users.insert(users.end(), rewriter.users(value).begin(), rewriter.users(value).end());
    }
    if (users.size() != 1) return false;  // it is not computed together with what is used twice
    const core::Op& user = rewriter.op(users.front());
    if (user.outputs.size() != 1 || !core::builtin(user.kind).is_elementwise()) return false;
    if (std::any_of(user.inputs.begin(), user.inputs.end(), [&](core::ValueId in) { return others.contains(in); }))
      return true;
    first = {user.outputs[0]};
  }
}

}  // namespace lowtide::layout
