// SPDX-License-Identifier: Apache-2.0
// Which nodes cannot be converted, and which could not be judged because their inputs come from those. A node of a loop
// that is laid out several times is listed once.
#pragma once

#include <cstdint>
#include <unordered_set>
#include <vector>

#include "stream/error.h"
#include "stream/onnx/model.h"

namespace lowtide::layout {

class Judgement {
 public:
  // `reason` names the node already.
  void refuse(const onnx::Node& node, const stream::Unsupported& reason);
  void leave_open(const onnx::Node& node);  // neither refused nor accepted

  // How often the two were called, for nodes that are listed already too.
  uint64_t refusals() const { return refusals_; }
  uint64_t open() const { return open_; }

  // In the order in which nodes were met.
  const std::vector<stream::Unsupported>& refused() const { return reasons_; }
  // Without those that were refused another time; node and operator only.
  std::vector<stream::Where> not_judged() const;

 private:
  std::vector<stream::Unsupported> reasons_;
  std::vector<const onnx::Node*> left_open_;
  std::unordered_set<const onnx::Node*> refused_nodes_, open_nodes_;
  uint64_t refusals_ = 0, open_ = 0;
};

}  // namespace lowtide::layout
