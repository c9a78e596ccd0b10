// SPDX-License-Identifier: Apache-2.0
#include "layout/lower/inline_functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "stream/error.h"
#include "stream/printable.h"

namespace lowtide::layout {

using onnx::Attribute;
using onnx::Function;
using onnx::Graph;
using onnx::Node;
using stream::Code;
using stream::Error;

namespace {

constexpr size_t kMostDepth = 64;
// 30 functions of which each calls the next one twice would expand to 10^9 nodes.
constexpr uint64_t kMostInlinedNodes = 2'000'000;
// What is copied with them: a text or a list of a megabyte would be copied for each call.
constexpr uint64_t kMostInlinedBytes = 512 << 20;
// A label is the beginning of the names of a call's values, and of the labels in calls below.
constexpr size_t kMostPrefix = 256;

std::string name_of(const Function& function) { return fmt::format("{}.{}", function.domain, function.name); }

std::string prefix_of(const Node& call) { return stream::shortened(call.label(), kMostPrefix); }

// About what a copy takes.
uint64_t copied_bytes(const std::vector<std::string>& texts) {
  uint64_t bytes = 0;
  for (const std::string& text : texts) bytes += sizeof(std::string) + text.size();
  return bytes;
}
template <typename Named>
uint64_t copied_names(const std::vector<Named>& all) {
  uint64_t bytes = 0;
  for (const Named& one : all) bytes += sizeof one + one.name.size();
  return bytes;
}
uint64_t copied_bytes(const Attribute& attribute) {
  return sizeof attribute + attribute.name.size() + attribute.s.size() + copied_bytes(attribute.strings) +
         attribute.floats.size() * sizeof(float) + attribute.ints.size() * sizeof(int64_t);
}
uint64_t copied_bytes(const Node& node) {
  uint64_t bytes = sizeof node + node.name.size() + copied_bytes(node.inputs) + copied_bytes(node.outputs);
  for (const Attribute& attribute : node.attributes) bytes += copied_bytes(attribute);
  return bytes;
}
// Without its nodes.
uint64_t copied_bytes(const Graph& graph) {
  uint64_t bytes = graph.name.size() + copied_names(graph.inputs) + copied_names(graph.outputs) +
                   copied_names(graph.value_info) + copied_names(graph.initializers);
  for (const auto& sparse : graph.sparse_initializers) bytes += sizeof sparse + sparse.values.name.size();
  return bytes;
}

// Maps the names in a function's body, or in a graph inside it, to their names in the model.
struct FunctionScope {
  std::unordered_map<std::string, std::string> names;
  const FunctionScope* outer = nullptr;

  const std::string& find(const std::string& name) const {
    for (const FunctionScope* scope = this; scope; scope = scope->outer)
      if (auto it = scope->names.find(name); it != scope->names.end()) return it->second;
    throw Error(Code::kMalformed, fmt::format("the function uses '{}', which has no producer in it", name));
  }
};

class Inliner {
 public:
  explicit Inliner(const onnx::Model& model) {
    for (const Function& function : model.functions)
      functions_[{function.domain, function.name, function.overload}] = &function;
    collect_names(model.graph);
    if (auto it = model.opsets.find(""); it != model.opsets.end()) standard_opset_ = it->second;
  }

  // The graph with all calls replaced, in its subgraphs too.
  Graph inlined(const Graph& graph) {
    if (!calling_.empty()) count_copy(copied_bytes(graph));
    Graph out = graph;
    out.nodes.clear();
    for (const Node& node : graph.nodes) append(node, out.nodes);
    return out;
  }

 private:
  using Key = std::tuple<std::string, std::string, std::string>;

  void collect_names(const Graph& graph) {
    for (const auto& info : graph.inputs) names_.insert(info.name);
    for (const auto& tensor : graph.initializers) names_.insert(tensor.name);
    for (const auto& sparse : graph.sparse_initializers) names_.insert(sparse.values.name);
    for (const Node& node : graph.nodes) {
      names_.insert(node.outputs.begin(), node.outputs.end());
      for (const Attribute& attribute : node.attributes)
        for (const auto& below : attribute.graphs) collect_names(*below);
    }
  }

  std::string new_name(const std::string& call, const std::string& name) {
    const std::string base = call + "/" + name;
    std::string made = base;
    for (uint64_t* next = nullptr; !names_.insert(made).second;) {
      if (next == nullptr) next = &next_[base];
      made = ++*next == 1 ? base + "_" : fmt::format("{}_{}", base, *next);
    }
    return made;
  }

  void count_copy(uint64_t bytes) {
    bytes_ += bytes;
    if (bytes_ > kMostInlinedBytes)
      throw Error(Code::kMalformed,
                  fmt::format("the model's functions expand to more than {} MB of names, attributes and graphs",
                              kMostInlinedBytes >> 20));
  }

  void append(Node node, std::vector<Node>& out) {
    if (++nodes_ > kMostInlinedNodes) too_many_nodes();
    for (Attribute& attribute : node.attributes)
      for (auto& below : attribute.graphs) below = std::make_shared<Graph>(inlined(*below));
    auto found = functions_.find(Key{node.domain, node.op_type, node.overload});
    if (found == functions_.end()) return out.push_back(std::move(node));
    try {
      expand(node, *found->second, out);
    } catch (Error& error) {
      error.add_place({.node = node.label(), .op = name_of(*found->second)});
      throw;
    }
  }

  // How many nodes a function expands to, at least: a bomb of nested calls is refused before any of it is built. What
  // is not counted (a cycle, too deep a nesting, graphs that a caller hands in) is limited during the expansion.
  uint64_t expanded_nodes(const Function& function, size_t depth) {
    auto [known, is_new] = expanded_nodes_.emplace(&function, 0);
    if (!is_new || depth >= kMostDepth) return known->second;
    const uint64_t count = expanded_nodes(function.nodes, depth);
    return expanded_nodes_[&function] = count;
  }
  uint64_t expanded_nodes(const std::vector<Node>& nodes, size_t depth) {
    uint64_t count = 0;
    for (const Node& node : nodes) {
      ++count;
      for (const Attribute& attribute : node.attributes)
        for (const auto& below : attribute.graphs) count += expanded_nodes(below->nodes, depth);
      if (auto called = functions_.find(Key{node.domain, node.op_type, node.overload}); called != functions_.end())
        count += expanded_nodes(*called->second, depth + 1);
      count = std::min(count, kMostInlinedNodes + 1);  // no overflow
    }
    return count;
  }

  [[noreturn]] static void too_many_nodes() {
    throw Error(Code::kMalformed, fmt::format("the model's functions expand to more than {} nodes", kMostInlinedNodes));
  }

  void expand(const Node& call, const Function& function, std::vector<Node>& out) {
    if (std::count(calling_.begin(), calling_.end(), &function))
      throw Error(Code::kMalformed, "the function calls itself, directly or through other functions");
    if (calling_.size() >= kMostDepth)
      throw Error(Code::kMalformed, fmt::format("calls of functions are nested more than {} deep", kMostDepth));
    if (calling_.empty() && nodes_ + expanded_nodes(function, 0) > kMostInlinedNodes) too_many_nodes();
    check_call(call, function);
    calling_.push_back(&function);
    FunctionScope scope;
    std::vector<Node> copies = bind(call, function, scope);
    for (const Node& node : function.nodes) append(renamed(node, scope, call, function), out);
    for (Node& copy : copies) append(std::move(copy), out);
    calling_.pop_back();
  }

  static void check_call(const Node& call, const Function& function) {
    if (call.inputs.size() > function.inputs.size() || call.outputs.size() > function.outputs.size())
      throw Error(Code::kMalformed,
                  fmt::format("the call has {} inputs and {} outputs, the function has {} and {}", call.inputs.size(),
                              call.outputs.size(), function.inputs.size(), function.outputs.size()));
    for (const Attribute& attribute : call.attributes) {
      auto is_default = [&](const Attribute& other) { return other.name == attribute.name; };
      if (!std::count(function.attributes.begin(), function.attributes.end(), attribute.name) &&
          std::none_of(function.attribute_defaults.begin(), function.attribute_defaults.end(), is_default))
        throw Error(Code::kMalformed, fmt::format("the function has no attribute '{}'", attribute.name));
    }
  }

  // Names all values of the body. Returns the nodes that copy values into outputs of the call where renaming cannot do
  // it: for an input that is also an output, and for an output that is listed twice.
  std::vector<Node> bind(const Node& call, const Function& function, FunctionScope& scope) {
    for (size_t i = 0; i < function.inputs.size(); ++i) {
      std::string actual = i < call.inputs.size() ? call.inputs[i] : std::string();
      if (!scope.names.emplace(function.inputs[i], std::move(actual)).second)
        throw Error(Code::kMalformed, fmt::format("the function has two inputs '{}'", function.inputs[i]));
    }
    std::set<std::string> made;
    for (const Node& node : function.nodes)
      for (const std::string& name : node.outputs)
        if (!name.empty() && (scope.names.contains(name) || !made.insert(name).second))
          throw Error(Code::kMalformed, fmt::format("the function has two values '{}'", name));

    std::vector<std::pair<std::string, std::string>> handed_on;
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      if (call.outputs[i].empty()) continue;
      if (made.erase(function.outputs[i]))
        scope.names.emplace(function.outputs[i], call.outputs[i]);
      else
        handed_on.emplace_back(function.outputs[i], call.outputs[i]);
    }
    for (const std::string& name : made) scope.names.emplace(name, new_name(prefix_of(call), name));
    std::vector<Node> copies;
    for (const auto& [from, to] : handed_on) {
      const std::string& source = scope.find(from);
      if (source.empty())
        throw Error(Code::kMalformed,
                    fmt::format("the function's output '{}' is an input that the call does not give", from));
      copies.push_back({.name = call.label(),
                        .op_type = "Identity",
                        .inputs = {source},
                        .outputs = {to},
                        .offset = call.offset,
                        .opset = version(function, "")});
    }
    return copies;
  }

  int64_t version(const Function& function, const std::string& domain) const {
    auto it = function.opsets.find(domain);
    if (it != function.opsets.end()) return it->second;
    return domain.empty() ? standard_opset_ : 0;
  }

  Node renamed(const Node& node, const FunctionScope& scope, const Node& call, const Function& function) {
    count_copy(copied_bytes(node));
    Node out = node;
    out.name = fmt::format("{}/{}", prefix_of(call), node.label());
    out.offset = call.offset;
    out.opset = version(function, node.domain);
    for (std::string& name : out.inputs)
      if (!name.empty()) name = scope.find(name);
    for (std::string& name : out.outputs)
      if (!name.empty()) name = scope.find(name);
    out.attributes.clear();
    for (const Attribute& attribute : node.attributes) {
      if (!attribute.reference.empty()) {
        // The caller's attribute; graphs in it already have the caller's names.
        if (const Attribute* given = referred(attribute, call, function)) {
          count_copy(copied_bytes(*given));
          out.attributes.push_back(*given);
          out.attributes.back().name = attribute.name;
        }
        continue;
      }
      out.attributes.push_back(attribute);
      for (auto& below : out.attributes.back().graphs)
        below = std::make_shared<Graph>(renamed(*below, scope, call, function));
    }
    return out;
  }

  static const Attribute* referred(const Attribute& attribute, const Node& call, const Function& function) {
    const Attribute* given = call.find(attribute.reference);
    if (!given) {
      auto named = [&](const Attribute& other) { return other.name == attribute.reference; };
      auto it = std::find_if(function.attribute_defaults.begin(), function.attribute_defaults.end(), named);
      if (it == function.attribute_defaults.end()) return nullptr;
      given = &*it;
    }
    if (attribute.type != Attribute::Type::kUndefined && given->type != attribute.type)
      throw Error(Code::kMalformed,
                  fmt::format("attribute '{}' has type {}, the function expects {}", attribute.reference,
                              static_cast<int>(given->type), static_cast<int>(attribute.type)));
    return given;
  }

  // A graph inside a body: its own values are renamed too, because arguments of the call may have the same names.
  Graph renamed(const Graph& graph, const FunctionScope& outer, const Node& call, const Function& function) {
    count_copy(copied_bytes(graph));
    Graph out = graph;
    FunctionScope scope{.names = {}, .outer = &outer};
    auto own = [&](std::string& name) {
      auto [it, is_new] = scope.names.emplace(name, std::string());
      if (is_new) it->second = new_name(prefix_of(call), name);
      name = it->second;
    };
    for (auto& info : out.inputs) own(info.name);
    for (auto& tensor : out.initializers) own(tensor.name);
    for (auto& sparse : out.sparse_initializers) own(sparse.values.name);
    for (const Node& node : graph.nodes)
      for (std::string name : node.outputs)
        if (!name.empty()) own(name);
    for (Node& node : out.nodes) node = renamed(node, scope, call, function);
    for (auto& info : out.outputs) info.name = scope.find(info.name);
    out.value_info.clear();
    return out;
  }

  std::map<Key, const Function*> functions_;
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, uint64_t> next_;  // of names that were wanted again
  std::vector<const Function*> calling_;
  std::unordered_map<const Function*, uint64_t> expanded_nodes_;
  int64_t standard_opset_ = 0;
  uint64_t nodes_ = 0, bytes_ = 0;
};

}  // namespace

onnx::Model inline_functions(const onnx::Model& model) {
  Inliner inliner(model);
  onnx::Model out = model;
  out.graph = inliner.inlined(model.graph);
  out.functions.clear();
  return out;
}

}  // namespace lowtide::layout
