// SPDX-License-Identifier: Apache-2.0
#include "layout/marked_nodes.h"

#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <utility>

namespace lowtide::layout {
namespace {

// A control character, which a usual name does not have. Names in an untrusted model may have it.
constexpr char kMark = '\x1d';

// What is behind the number in a name that begins with a mark; nullopt for other names.
struct NodeMark {
  size_t number = 0;
  std::string_view rest;
};
std::optional<NodeMark> mark_of(std::string_view name) {
  if (!name.starts_with(kMark)) return std::nullopt;
  name.remove_prefix(1);
  NodeMark out;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data(), end, out.number);
  if (error != std::errc() || rest == end || *rest != kMark) return std::nullopt;
  out.rest = name.substr(static_cast<size_t>(rest - name.data()) + 1);
  return out;
}

std::string label_without_marks(const onnx::Node& node) {
  std::string label = node.label();
  std::erase(label, kMark);
  return label;
}

}  // namespace

onnx::Node marked(const onnx::Node& node, size_t number) {
  onnx::Node out = node;
  out.name = fmt::format("{}{}{}{}", kMark, number, kMark, label_without_marks(node));
  for (onnx::Attribute& attribute : out.attributes)
    for (auto& body : attribute.graphs) {
      body = std::make_shared<onnx::Graph>(*body);
      for (onnx::Node& inner : body->nodes) inner = marked(inner, number);
    }
  return out;
}

std::string without_marks(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    if (const auto mark = mark_of(text)) {
      text = mark->rest;
      continue;
    }
    out += text.front();
    text.remove_prefix(1);
  }
  return out;
}

Refusal refusal(const stream::Where& where, std::string_view text, size_t nodes) {
  Refusal out{std::nullopt, without_marks(text)};
  // Names in functions and bodies are the model's own, which may look like a mark.
  if (const auto mark = mark_of(where.node); mark && mark->number < nodes) out.node = mark->number;
  return out;
}

void add_refusals(const std::vector<Refusal>& refusals, const std::vector<size_t>& part,
                  std::vector<std::string>& reasons) {
  if (refusals.empty()) return;
  bool has_news = false;
  const Refusal* whole = nullptr;
  for (const Refusal& one : refusals) {
    if (!one.node) {
      if (!whole) whole = &one;
      continue;
    }
    if (!reasons[*one.node].empty()) continue;
    reasons[*one.node] = one.reason;
    has_news = true;
  }
  if (!whole && has_news) return;
  const std::string& reason = whole ? whole->reason : refusals.front().reason;
  for (const size_t node : part)
    if (reasons[node].empty()) reasons[node] = reason;
}

}  // namespace lowtide::layout
