// SPDX-License-Identifier: Apache-2.0
#include "layout/lower/values_used.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <unordered_set>

namespace lowtide::layout {
namespace {

void add_values_captured(const onnx::Graph& body, std::vector<std::string_view>& out) {
  std::unordered_set<std::string_view> own;
  for (const onnx::ValueInfo& input : body.inputs) own.insert(input.name);
  for (const onnx::Tensor& tensor : body.initializers) own.insert(tensor.name);
  for (const onnx::SparseTensor& tensor : body.sparse_initializers) own.insert(tensor.values.name);
  std::vector<std::string_view> used;
  for (const onnx::Node& node : body.nodes) {
    own.insert(node.outputs.begin(), node.outputs.end());
    add_values_used(node, used);
  }
  for (const onnx::ValueInfo& output : body.outputs) used.emplace_back(output.name);
  std::copy_if(used.begin(), used.end(), std::back_inserter(out),
               [&](std::string_view name) { return !own.contains(name); });
}

}  // namespace

void add_values_used(const onnx::Node& node, std::vector<std::string_view>& out) {
  for (const std::string& name : node.inputs)
    if (!name.empty()) out.emplace_back(name);
  for (const onnx::Attribute& attribute : node.attributes)
    for (const auto& body : attribute.graphs) add_values_captured(*body, out);
}

}  // namespace lowtide::layout
