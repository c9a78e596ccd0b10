// SPDX-License-Identifier: Apache-2.0
#include "layout/fuse/behind_reshape.h"

#include <algorithm>

namespace lowtide::layout {

ValueId before_reshapes(Rewriter& rewriter, ValueId id) {
  ValueId first = id;
  for (OpId reshape = rewriter.sole_producer(first, Kind::kReshape); reshape >= 0;
       reshape = rewriter.sole_producer(first, Kind::kReshape)) {
    if (rewriter.value(rewriter.op(reshape).inputs[0]).is_constant()) break;
    first = rewriter.op(reshape).inputs[0];
  }
  return first;
}

void name_last(Rewriter& rewriter, ValueId first, ValueId last, std::string name) {
  for (ValueId id = last; id != first; id = rewriter.op(rewriter.producer(id)).inputs[0])
    rewriter.graph.at(id).name.clear();
  rewriter.graph.at(first).name.clear();
  rewriter.graph.at(last).name = std::move(name);
}

bool BehindReshape::ends_in_reshapes() const {
  return std::all_of(values_.begin(), values_.end(), [&](ValueId value) {
    const auto& users = rewriter_.users(value);
    return !is_output(value) && std::all_of(users.begin(), users.end(), [&](OpId user) {
      return ops_.contains(user) || is_reshape_of(value, user);
    });
  });
}

}  // namespace lowtide::layout
