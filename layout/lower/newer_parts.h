// SPDX-License-Identifier: Apache-2.0
// Nodes that use an operator or an attribute newer than the opset that the model declares: gathered for notes, one for
// each operator or attribute.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_set>
#include <vector>

#include "stream/onnx/model.h"

namespace lowtide::layout {

class NewerParts {
 public:
  // A node that was lowered; `declared` is the opset of its domain. A node that is lowered again counts once.
  void look_at(const onnx::Node& node, int64_t declared);

  // "attribute 'dilations' of AveragePool is new in opset 19, the model declares opset 11: taken as in opset 19 (2
  // nodes, the first is 'pool1')"
  std::vector<std::string> notes() const;

 private:
  struct Found {
    uint64_t nodes = 0;
    std::string first;
  };
  std::map<std::tuple<std::string, std::string, int64_t>, Found> found_;  // operator, attribute, declared opset
  std::unordered_set<const onnx::Node*> seen_;
};

}  // namespace lowtide::layout
