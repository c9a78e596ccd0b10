// SPDX-License-Identifier: Apache-2.0
#include "layout/lower/scope.h"

#include <fmt/format.h>

#include <unordered_set>

#include "layout/core/subgraphs.h"
#include "stream/error.h"

namespace lowtide::layout {
namespace {

[[noreturn]] void given_twice(const std::string& name) {
  throw stream::Error(stream::Code::kMalformed, fmt::format("the name '{}' is given twice", name));
}

}  // namespace

Val Scope::find(const std::string& name) const {
  if (auto it = names.find(name); it != names.end()) return it->second.v;
  if (!outer) return {};
  Val found = outer->find(name);
  return subgraph ? subgraph->here(found) : found;
}

bool Scope::has(const std::string& name, Mark mark) const {
  auto it = names.find(name);
  return it == names.end() ? outer && outer->has(name, mark) : (it->second.marks & mark) != 0;
}

core::DType Scope::half(const std::string& name) const {
  if (has(name, kIsF16)) return core::DType::kFloat16;
  return has(name, kIsBF16) ? core::DType::kBFloat16 : core::DType::kUndefined;
}

void Scope::add(const std::string& name, Val v, uint8_t marks) {
  if (!names.emplace(name, Named{v, marks}).second) given_twice(name);
}

void check_names(const onnx::Graph& graph) {
  std::unordered_set<std::string_view> names;
  for (const onnx::Node& node : graph.nodes)
    for (const std::string& name : node.outputs)
      if (!name.empty() && !names.insert(name).second) given_twice(name);
}

}  // namespace lowtide::layout
