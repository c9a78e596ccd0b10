// SPDX-License-Identifier: Apache-2.0
#include "layout/marked_nodes.h"

#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <utility>

namespace lowtide::layout {
namespace {

// A control character: no name that a person gives has it.
constexpr char kMark = '\x1d';

}  // namespace

onnx::Node marked(const onnx::Node& node, size_t number) {
  onnx::Node out = node;
  out.name = fmt::format("{}{}{}{}", kMark, number, kMark, node.label());
  for (onnx::Attribute& attribute : out.attributes)
    for (auto& body : attribute.graphs) {
      body = std::make_shared<onnx::Graph>(*body);
      for (onnx::Node& inner : body->nodes) inner = marked(inner, number);
    }
  return out;
}

std::optional<size_t> number_of(std::string_view name) {
  if (!name.starts_with(kMark)) return std::nullopt;
  name.remove_prefix(1);
  size_t number = 0;
  const auto [rest, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool is_mark = error == std::errc() && rest != name.data() + name.size() && *rest == kMark;
  return is_mark ? std::optional(number) : std::nullopt;
}

std::string without_marks(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    if (number_of(text)) {
      text.remove_prefix(text.find(kMark, 1) + 1);
      continue;
    }
    out += text.front();
    text.remove_prefix(1);
  }
  return out;
}

}  // namespace lowtide::layout
