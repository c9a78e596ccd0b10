// SPDX-License-Identifier: Apache-2.0
#include "layout/lower/newer_parts.h"

#include <fmt/format.h>

#include "layout/lower/since.h"

namespace lowtide::layout {

void NewerParts::look_at(const onnx::Node& node, int64_t declared) {
  if (!node.domain.empty()) return;
  std::vector<std::string> newer;
  if (since_version(node.op_type) > declared) newer.emplace_back();
  // What comes with a newer operator needs no note of its own.
  if (newer.empty())
    for (const onnx::Attribute& attribute : node.attributes)
      if (since_version(node.op_type, attribute.name) > declared) newer.push_back(attribute.name);
  if (newer.empty() || !seen_.insert(&node).second) return;
  for (const std::string& attribute : newer) {
    Found& found = found_[{node.op_type, attribute, declared}];
    if (found.nodes++ == 0) found.first = node.label();
  }
}

std::vector<std::string> NewerParts::notes() const {
  std::vector<std::string> out;
  for (const auto& [part, found] : found_) {
    const auto& [op, attribute, declared] = part;
    const int64_t since = since_version(op, attribute);
    const std::string what =
        attribute.empty() ? fmt::format("operator {}", op) : fmt::format("attribute '{}' of {}", attribute, op);
    const std::string where = found.nodes == 1 ? fmt::format("node '{}'", found.first)
                                               : fmt::format("{} nodes, the first is '{}'", found.nodes, found.first);
    out.push_back(fmt::format("{} is new in opset {}, the model declares opset {}: taken as in opset {} ({})", what,
                              since, declared, since, where));
  }
  return out;
}

}  // namespace lowtide::layout
