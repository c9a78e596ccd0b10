// SPDX-License-Identifier: Apache-2.0
// The functions of a model by the nodes that call them. A function goes before an operator of its name.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>

#include "stream/onnx/model.h"

namespace lowtide::layout {

class ModelFunctions {
 public:
  // `model` must live as long as this, and keep its functions.
  explicit ModelFunctions(const onnx::Model& model) {
    for (size_t i = 0; i < model.functions.size(); ++i) {
      const onnx::Function& function = model.functions[i];
      places_.emplace(Key{function.domain, function.name, function.overload}, i);
    }
  }

  // The place in Model::functions.
  std::optional<size_t> called_by(const onnx::Node& node) const {
    const auto found = places_.find(Key{node.domain, node.op_type, node.overload});
    return found == places_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  using Key = std::tuple<std::string_view, std::string_view, std::string_view>;

  std::map<Key, size_t> places_;
};

}  // namespace lowtide::layout
