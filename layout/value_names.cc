// SPDX-License-Identifier: Apache-2.0
#include "layout/value_names.h"

#include <utility>

namespace lowtide::layout {
namespace {

void add_value_names(const onnx::Graph& graph, ValueNames& out) {
  for (const auto* list : {&graph.inputs, &graph.outputs, &graph.value_info})
    for (const onnx::ValueInfo& info : *list) out.insert(info.name);
  for (const onnx::Tensor& tensor : graph.initializers) out.insert(tensor.name);
  for (const onnx::SparseTensor& tensor : graph.sparse_initializers) out.insert(tensor.values.name);
  for (const onnx::Node& node : graph.nodes) {
    out.insert(node.inputs.begin(), node.inputs.end());
    out.insert(node.outputs.begin(), node.outputs.end());
    for (const onnx::Attribute& attribute : node.attributes)
      for (const auto& body : attribute.graphs) add_value_names(*body, out);
  }
}

}  // namespace

ValueNames all_value_names(const onnx::Graph& graph) {
  ValueNames out;
  add_value_names(graph, out);
  return out;
}

std::string new_value_name(std::string wanted, ValueNames& taken) {
  while (!taken.insert(wanted).second) wanted += '_';
  return wanted;
}

}  // namespace lowtide::layout
