// SPDX-License-Identifier: Apache-2.0
#include "layout/half_values.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "layout/lower/graph_inputs.h"
#include "layout/lower/values_used.h"

namespace lowtide::layout {
namespace {

bool is_half_number(int64_t number) {
  const std::optional<stream::DType> dtype = stream::onnx_dtype(number);
  return dtype && is_half(*dtype);
}

}  // namespace

HalfValues::HalfValues(const onnx::Model& model) : model_(model) {
  for (const onnx::ValueInfo& info : model.graph.inputs)
    if (is_half(info.dtype)) add(info.name);
  for (const onnx::Tensor& tensor : model.graph.initializers)
    if (is_half(tensor.dtype)) add(tensor.name);
  for (const onnx::SparseTensor& tensor : model.graph.sparse_initializers)
    if (is_half(tensor.values.dtype)) add(tensor.values.name);
  for (const onnx::Function& function : model.functions)
    for (const onnx::Node& node : function.nodes) functions_have_ = functions_have_ || has_half_attribute(node);
}

// Any whole number that could be an element type counts: attributes that name types have several names.
bool HalfValues::has_half_attribute(const onnx::Node& node) const {
  using Form = onnx::Attribute::Type;
  auto names_a_type = [](const std::string& name) {
    return name == "to" || name.find("dtype") != std::string::npos || name.find("type") != std::string::npos;
  };
  return std::any_of(node.attributes.begin(), node.attributes.end(), [&](const onnx::Attribute& attribute) {
    if (attribute.type == Form::kInt && names_a_type(attribute.name) && is_half_number(attribute.i)) return true;
    for (const onnx::Tensor& tensor : attribute.tensors)
      if (is_half(tensor.dtype)) return true;
    for (const onnx::SparseTensor& tensor : attribute.sparse)
      if (is_half(tensor.values.dtype)) return true;
    for (const auto& graph : attribute.graphs)
      if (has_half_tensor(*graph)) return true;
    return false;
  });
}

bool HalfValues::has_half_tensor(const onnx::Graph& graph) const {
  return std::any_of(graph.initializers.begin(), graph.initializers.end(),
                     [](const onnx::Tensor& tensor) { return is_half(tensor.dtype); }) ||
         std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [&](const onnx::Node& node) { return has_half_attribute(node); });
}

bool HalfValues::may_make(const onnx::Node& node) const {
  std::vector<std::string_view> used;
  add_values_used(node, used);
  const bool is_call =
      std::any_of(model_.functions.begin(), model_.functions.end(), [&](const onnx::Function& function) {
        return function.domain == node.domain && function.name == node.op_type && function.overload == node.overload;
      });
  return (is_call && functions_have_) || has_half_attribute(node) ||
         std::any_of(used.begin(), used.end(),
                     [&](std::string_view name) { return values_.contains(std::string(name)); });
}

}  // namespace lowtide::layout
