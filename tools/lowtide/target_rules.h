// SPDX-License-Identifier: Apache-2.0
// What a target says of the nodes of one model. An entry with a condition on a type that is unknown does not fit.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "layout/divide_model.h"
#include "layout/model_types.h"
#include "stream/onnx/model.h"
#include "tools/lowtide/target.h"

namespace lowtide::tools {

class TargetRules {
 public:
  // The target outlives it; of the model it keeps what it needs.
  TargetRules(const Target& target, const onnx::Model& model);
  // Why the node may not be there; empty: it may.
  std::string refuse(const onnx::Node& node, const layout::ModelTypes& types) const;
  // The nodes of a piece that may only be where a piece begins or ends, and are in its middle; with the reason.
  std::vector<std::pair<size_t, std::string>> refuse_inside(const onnx::Model& model, const layout::ModelPiece& piece,
                                                            const layout::ModelTypes& types) const;
  // The nodes of each pattern that was found, by their places in the graph. The first pattern that fits takes a node.
  const std::vector<std::vector<size_t>>& groups() const { return groups_; }

 private:
  struct Facts;
  void find_groups(const onnx::Graph& graph);
  // The entries that fit; `first` becomes the reason of the first one that does not.
  std::vector<const Target::Entry*> fitting(const onnx::Node& node, const layout::ModelTypes& types,
                                            std::string& first) const;
  std::string misfit(const Target::Entry& entry, const onnx::Node& node, const Facts& facts) const;
  std::string misfit(const Target::Operand& operand, const std::string& value, const Facts& facts) const;
  bool is_in_pattern(const onnx::Node& node) const;
  bool is_data(const onnx::Node& node) const;

  const Target& target_;
  std::unordered_map<std::string, onnx::ValueInfo> constants_;  // by name; types only of initializers
  std::unordered_set<std::string> unfolded_;                    // of these: by a DequantizeLinear that stays
  std::vector<std::vector<size_t>> groups_;
  std::unordered_map<std::string, size_t> group_of_;  // by an output of a node
};

}  // namespace lowtide::tools
