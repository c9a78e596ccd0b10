// SPDX-License-Identifier: Apache-2.0
#include "layout/piece_weights.h"

#include <set>
#include <string>
#include <unordered_set>
#include <utility>

#include "layout/model_functions.h"

namespace lowtide::layout {
namespace {

// What a node, or a function, holds itself, and the nodes there, which may call functions.
struct Held {
  uint64_t bytes = 0;
  std::vector<const onnx::Node*> nodes;

  void add(uint64_t more) { bytes = more > UINT64_MAX - bytes ? UINT64_MAX : bytes + more; }
};

uint64_t stored_bytes(const onnx::Tensor& tensor) {
  uint64_t bytes = tensor.data ? tensor.data->bytes() : 0;
  for (const std::string& text : tensor.strings) bytes += text.size();
  return bytes;
}

void add_tensor(const onnx::Tensor& tensor, Held& out) { out.add(stored_bytes(tensor)); }

void add_tensor(const onnx::SparseTensor& tensor, Held& out) {
  out.add(stored_bytes(tensor.values));
  out.add(stored_bytes(tensor.indices));
}

void add_node(const onnx::Node& node, Held& out);

void add_attribute(const onnx::Attribute& attribute, Held& out) {
  for (const onnx::Tensor& tensor : attribute.tensors) add_tensor(tensor, out);
  for (const onnx::SparseTensor& tensor : attribute.sparse) add_tensor(tensor, out);
  for (const auto& body : attribute.graphs) {
    for (const onnx::Tensor& tensor : body->initializers) add_tensor(tensor, out);
    for (const onnx::SparseTensor& tensor : body->sparse_initializers) add_tensor(tensor, out);
    for (const onnx::Node& node : body->nodes) add_node(node, out);
  }
}

void add_node(const onnx::Node& node, Held& out) {
  out.nodes.push_back(&node);
  for (const onnx::Attribute& attribute : node.attributes) {
    add_attribute(attribute, out);
    // The lists of trees, support vectors and encoders are weights; those of other operators are a few numbers.
    if (node.domain != "ai.onnx.ml") continue;
    out.add(attribute.floats.size() * sizeof(float));
    out.add(attribute.ints.size() * sizeof(int64_t));
    for (const std::string& text : attribute.strings) out.add(text.size());
  }
}

}  // namespace

PieceWeights::PieceWeights(const onnx::Model& model) {
  for (const onnx::Tensor& tensor : model.graph.initializers) {
    Held held;
    add_tensor(tensor, held);
    if (!values_.contains(tensor.name)) values_.emplace(tensor.name, add(held.bytes));
  }
  for (const onnx::SparseTensor& tensor : model.graph.sparse_initializers) {
    Held held;
    add_tensor(tensor, held);
    if (!values_.contains(tensor.values.name)) values_.emplace(tensor.values.name, add(held.bytes));
  }

  const ModelFunctions functions(model);
  auto called_by = [&](const std::vector<const onnx::Node*>& nodes) {
    std::set<size_t> out;
    for (const onnx::Node* node : nodes)
      if (const auto function = functions.called_by(*node)) out.insert(*function);
    return std::vector<size_t>(out.begin(), out.end());
  };
  std::vector<size_t> numbers;               // of what each function holds
  std::vector<std::vector<size_t>> callees;  // of each function
  for (const onnx::Function& function : model.functions) {
    Held held;
    for (const onnx::Attribute& attribute : function.attribute_defaults) add_attribute(attribute, held);
    for (const onnx::Node& node : function.nodes) add_node(node, held);
    numbers.push_back(add(held.bytes));
    callees.push_back(called_by(held.nodes));
  }

  for (const onnx::Node& node : model.graph.nodes) {
    Held held;
    add_node(node, held);
    held_.emplace_back();
    if (held.bytes > 0) held_.back().push_back(add(held.bytes));
    // Functions call others; each counts once, and a cycle of calls, which is refused elsewhere, ends here.
    std::unordered_set<size_t> seen;
    for (std::vector<size_t> open = called_by(held.nodes); !open.empty();) {
      const size_t function = open.back();
      open.pop_back();
      if (!seen.insert(function).second) continue;
      if (bytes_[numbers[function]] > 0) held_.back().push_back(numbers[function]);
      open.insert(open.end(), callees[function].begin(), callees[function].end());
    }
  }
}

size_t PieceWeights::add(uint64_t bytes) {
  bytes_.push_back(bytes);
  return bytes_.size() - 1;
}

std::optional<size_t> PieceWeights::of_value(std::string_view name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace lowtide::layout
