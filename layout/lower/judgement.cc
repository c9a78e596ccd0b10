// SPDX-License-Identifier: Apache-2.0
#include "layout/lower/judgement.h"

#include "layout/lower/node_order.h"

namespace lowtide::layout {

void Judgement::refuse(const onnx::Node& node, const stream::Unsupported& reason) {
  ++refusals_;
  if (refused_nodes_.insert(&node).second) reasons_.push_back(reason);
}

void Judgement::leave_open(const onnx::Node& node) {
  ++open_;
  if (open_nodes_.insert(&node).second) left_open_.push_back(&node);
}

std::vector<stream::Where> Judgement::not_judged() const {
  std::vector<stream::Where> out;
  for (const onnx::Node* node : left_open_)
    if (!refused_nodes_.contains(node)) out.push_back({.node = node->label(), .op = full_name(*node)});
  return out;
}

}  // namespace lowtide::layout
