// SPDX-License-Identifier: Apache-2.0
// The names of a weight when a user selects weights by name: the initializers that its recipe reads. A weight that was
// folded from several tensors has the names of the largest ones, not of scales and means.
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
  // Where bytes start: in a file, or in a recipe that contains its bytes.
  using Place = std::pair<const void*, uint64_t>;
  struct Named {
    uint64_t bytes;  // from its place on
    std::string name;
  };
  static Place place(const stream::Recipe& leaf);
  // Null when the leaf is not an initializer or a part of one.
  const std::string* find(const stream::Recipe& leaf) const;
  void add(const onnx::Tensor& tensor, const std::string& name);
  void add(const onnx::Graph& graph);
  void add(const std::vector<onnx::Node>& nodes);

  std::map<Place, Named> names_;
};

}  // namespace lowtide::layout
