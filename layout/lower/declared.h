// SPDX-License-Identifier: Apache-2.0
// The types that the file declares of values (value_info and outputs). A lowering finds out types by itself; these are
// for the outputs of nodes that are not lowered, so that the nodes behind them can be judged, and of custom operators.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "layout/core/graph.h"
#include "stream/onnx/model.h"

namespace lowtide::layout {

class Declared {
 public:
  explicit Declared(core::Symbols& symbols) : symbols_(symbols) {}

  // What the inputs, of the shape given, tell of dimensions with a name.
  void name_dimensions(const onnx::ValueInfo& input, const core::Shape& shape);

  // Null when the file declares nothing of a value of the graph.
  const onnx::ValueInfo* find(const std::string& name, const onnx::Graph& graph);

  // nullopt where the declaration leaves open what a lowering may ask for: an extent, or whether the elements of a
  // small tensor of integers or booleans are known at conversion.
  std::optional<core::Shape> full_shape(const onnx::ValueInfo& info) const;

  // A dimension without a number is a symbol. A name that no input has stands for one extent wherever the file
  // declares it.
  core::Shape symbolic_shape(const onnx::ValueInfo& info);

 private:
  core::Symbols& symbols_;
  std::unordered_map<std::string, std::optional<core::Dim>> named_dims_;  // nullopt: inputs contradict each other
  std::unordered_map<const onnx::Graph*, std::unordered_map<std::string_view, const onnx::ValueInfo*>> types_;
};

}  // namespace lowtide::layout
