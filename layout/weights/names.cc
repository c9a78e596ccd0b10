// SPDX-License-Identifier: Apache-2.0
#include "layout/weights/names.h"

#include <algorithm>
#include <set>

namespace lowtide::layout {

WeightNames::WeightNames(const onnx::Model& model) {
  add(model.graph);
  for (const onnx::Function& function : model.functions) add(function.nodes);
}

WeightNames::Place WeightNames::place(const stream::Recipe& leaf) {
  if (const auto* stored = std::get_if<stream::step::Stored>(&leaf.step); stored && !stored->file_runs.empty())
    return {stored->source.get(), stored->file_runs[0].offset};
  return {&leaf, 0};
}

void WeightNames::add(const onnx::Tensor& tensor, const std::string& name) {
  if (!tensor.data || name.empty()) return;
  uint64_t bytes = tensor.data->bytes();
  if (const auto* stored = std::get_if<stream::step::Stored>(&tensor.data->step))
    bytes = stored->file_runs.empty() ? 0 : stored->file_runs[0].bytes;
  names_.emplace(place(*tensor.data), Named{bytes, name});
}

const std::string* WeightNames::find(const stream::Recipe& leaf) const {
  const Place wanted = place(leaf);
  auto after = names_.upper_bound(wanted);
  if (after == names_.begin()) return nullptr;
  const auto& [begin, named] = *--after;
  if (begin.first != wanted.first || wanted.second - begin.second >= std::max<uint64_t>(named.bytes, 1)) return nullptr;
  return &named.name;
}

void WeightNames::add(const onnx::Graph& graph) {
  for (const onnx::Tensor& tensor : graph.initializers) add(tensor, tensor.name);
  add(graph.nodes);
}

void WeightNames::add(const std::vector<onnx::Node>& nodes) {
  for (const onnx::Node& node : nodes)
    for (const onnx::Attribute& attribute : node.attributes) {
      for (const auto& graph : attribute.graphs) add(*graph);
      // The tensor of a Constant has the name of the node's output.
      if (node.op_type == "Constant" && !node.outputs.empty())
        for (const onnx::Tensor& tensor : attribute.tensors) add(tensor, node.outputs[0]);
    }
}

std::vector<std::string> WeightNames::of(const stream::RecipeRef& weight) const {
  std::vector<std::string> out;
  uint64_t largest = 0;
  std::set<const stream::Recipe*> seen;
  std::vector<const stream::Recipe*> open{weight.get()};
  while (!open.empty()) {
    const stream::Recipe* recipe = open.back();
    open.pop_back();
    if (!seen.insert(recipe).second) continue;
    for (const auto& input : recipe->from) open.push_back(input.get());
    const std::string* name = recipe->from.empty() ? find(*recipe) : nullptr;
    if (!name || recipe->elements() < largest) continue;
    if (recipe->elements() > largest) out.clear();
    largest = recipe->elements();
    if (std::find(out.begin(), out.end(), *name) == out.end()) out.push_back(*name);
  }
  return out;
}

}  // namespace lowtide::layout
