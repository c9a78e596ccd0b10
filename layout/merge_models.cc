// SPDX-License-Identifier: Apache-2.0
#include "layout/merge_models.h"

#include <variant>

namespace lowtide::layout {

std::unique_ptr<core::Model> merge_models(std::vector<Part>& parts, stream::Budget& budget) {
  auto out = std::make_unique<core::Model>(budget);
  for (Part& part : parts) {
    const auto first = static_cast<int>(out->graphs.size());
    out->signatures[out->graphs.size()] = part.signature;
    const auto first_operator = static_cast<uint32_t>(out->onnx_operators.size());
    for (std::string& name : part.model->onnx_operators) out->onnx_operators.push_back(std::move(name));
    for (auto& graph : part.model->graphs) {
      for (core::Op& op : graph->ops)
        if (auto* subgraphs = std::get_if<core::SubgraphOptions>(&op.options)) {
          subgraphs->first += first;
          subgraphs->second += first;
        }
      for (uint32_t& number : graph->origin_operators) number += first_operator;
      out->graphs.push_back(std::move(graph));
    }
    part.model->graphs.clear();
  }
  return out;
}

}  // namespace lowtide::layout
