// SPDX-License-Identifier: Apache-2.0
// What a weight is called when a user picks weights by name: the initializers that its recipe reads, and the nodes that
// use it. A weight that was folded from several tensors has the names of the largest; scales and means do not count.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "stream/onnx/model.h"

namespace lowtide::layout {

class WeightNames {
 public:
  WeightNames() = default;
  // Of all initializers and constants of the model, its subgraphs and functions. Memory grows with their number.
  explicit WeightNames(const onnx::Model& model);

  std::vector<std::string> of(const stream::RecipeRef& weight) const;

 private:
  // Where bytes begin: in a file, or in a recipe that holds its own.
  using Place = std::pair<const void*, uint64_t>;
  struct Named {
    uint64_t bytes;  // from there on
    std::string name;
  };
  static Place place(const stream::Recipe& leaf);
  // Null for what is no initializer's, nor a part of one.
  const std::string* find(const stream::Recipe& leaf) const;
  void add(const onnx::Tensor& tensor, const std::string& name);
  void add(const onnx::Graph& graph);
  void add(const std::vector<onnx::Node>& nodes);

  std::map<Place, Named> names_;
};

}  // namespace lowtide::layout
