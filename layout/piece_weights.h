// SPDX-License-Identifier: Apache-2.0
// The weights that a piece of a model brings along: initializers, and data that nodes hold themselves, such as that of
// a Constant, of a body of an If, and of a function that is called.
//
// A piece has each of them once, however many of its nodes use it: so they are numbered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "stream/onnx/model.h"

namespace lowtide::layout {

class PieceWeights {
 public:
  // `model` must live as long as this, and keep its initializers and nodes.
  explicit PieceWeights(const onnx::Model& model);

  // The number of an initializer of the main graph.
  std::optional<size_t> of_value(std::string_view name) const;
  // The numbers of what a node of the main graph holds, by its place there.
  const std::vector<size_t>& of_node(size_t node) const { return held_[node]; }
  // At most UINT64_MAX.
  uint64_t bytes(size_t number) const { return bytes_[number]; }

 private:
  size_t add(uint64_t bytes);

  std::vector<uint64_t> bytes_;
  std::unordered_map<std::string_view, size_t> values_;
  std::vector<std::vector<size_t>> held_;
};

}  // namespace lowtide::layout
