// SPDX-License-Identifier: Apache-2.0
#include "layout/raise/kept_operators.h"

#include <fmt/format.h>

#include <algorithm>

#include "schemas/tflite_generated.h"

namespace lowtide::layout {

std::vector<std::string> KeptOperators::notes(const tfl::Model& model) const {
  std::vector<std::string> out;
  for (const std::string& name : named) {
    const bool is_there = std::any_of(model.subgraphs.begin(), model.subgraphs.end(), [&](const auto& graph) {
      return std::any_of(graph.operators.begin(), graph.operators.end(), [&](const tfl::Operator& op) {
        return op.code == static_cast<int32_t>(tflite::BuiltinOperator::CUSTOM) && op.name == name;
      });
    });
    if (!is_there) out.push_back(fmt::format("--custom-ops: the model has no custom operator '{}'", name));
  }
  return out;
}

}  // namespace lowtide::layout
