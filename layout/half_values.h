// SPDX-License-Identifier: Apache-2.0
// Which values of an ONNX model whose types are not declared may be of half precision. The lowering does not tell
// (value_types.h): it widens them to f32.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>

#include "stream/onnx/model.h"

namespace lowtide::layout {

class HalfValues {
 public:
  explicit HalfValues(const onnx::Model& model);
  // Whether an output of the node may be f16 or bf16: one of its inputs may be, or an attribute names such a type.
  bool may_make(const onnx::Node& node) const;
  void add(const std::string& value) { values_.insert(value); }

 private:
  bool has_half_attribute(const onnx::Node& node) const;
  bool has_half_tensor(const onnx::Graph& graph) const;

  const onnx::Model& model_;
  bool functions_have_ = false;
  std::unordered_set<std::string> values_;
};

}  // namespace lowtide::layout
