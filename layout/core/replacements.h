// SPDX-License-Identifier: Apache-2.0
// Values that a pass replaces while it goes through the ops: noted one by one, and replaced in one sweep at the end.
// Graph::replace_uses() looks at the whole graph each time.
#pragma once

#include <vector>

#include "layout/core/graph.h"

namespace lowtide::core {

class Replacements {
 public:
  explicit Replacements(Graph& graph) : graph_(graph) {}

  // From apply() on, `to` is used in the place of `from`; or what stands for `to` by then. No cycles.
  void note(ValueId from, ValueId to);
  // What will stand for a value; itself if nothing does.
  ValueId now(ValueId id) const;
  // A copy of an op, with the inputs that it will have.
  Op now(Op op) const;
  // Replaces every use, as an op's input and as a graph output. Call it once.
  void apply();

 private:
  Graph& graph_;
  std::vector<ValueId> instead_;  // by value; kAbsent, and beyond the end: itself
};

}  // namespace lowtide::core
