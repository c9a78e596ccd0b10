// SPDX-License-Identifier: Apache-2.0
// How the lists of a model are joined in the end. A list that grows in a WHILE is one tensor there (lists.h), and what
// stands behind the loop says along which axis its elements are put together.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "stream/onnx/model.h"

namespace lowtide::layout {

// The attributes of a ConcatFromSequence.
struct ListJoin {
  int64_t axis = 0;
  bool stacks = false;  // along a new axis
};

class ListJoins {
 public:
  explicit ListJoins(const onnx::Graph& graph) { look_through(graph, 0); }
  // Nullopt when no ConcatFromSequence takes the list of that name, or what becomes of it. Names of subgraphs beside
  // each other may be the same: so it is no more than what the list is probably made for.
  std::optional<ListJoin> find(const std::string& list) const;

 private:
  void look_through(const onnx::Graph& graph, int depth);
  void look_at(const onnx::Node& node, int depth);
  void pass_on(const std::string& from, const std::string& to);
  std::unordered_map<std::string, ListJoin> joins_;
};

}  // namespace lowtide::layout
