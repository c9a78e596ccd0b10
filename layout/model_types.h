// SPDX-License-Identifier: Apache-2.0
// What is known of each value of a model, where some of its nodes cannot be converted.
//
// The trap: behind a node that cannot be converted types are unknown, unless the model (its value_info) or the
// user declares them, or a rule for its operator tells them (foreign_types.h). The lowering then goes on behind it, as
// if the declared value were an input. So a model is lowered several times, until nothing is refused.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "stream/file/budget.h"
#include "stream/onnx/model.h"

namespace lowtide::layout {

struct ModelTypes {
  // Of tensors: the element type is known, the shape where has_shape. Values of other types, and those whose type
  // is unknown, are left out.
  std::unordered_map<std::string, onnx::ValueInfo> values;
  // Small tensors of integers that are known at conversion, such as the shape of a tensor of fixed shape.
  std::unordered_map<std::string, stream::RecipeRef> integers;
  // For each node why it cannot be converted; empty: its lowering runs.
  std::vector<std::string> reasons;
  // Outputs of nodes that cannot be converted: if their types were declared, the nodes behind them could be judged.
  std::vector<std::string> undeclared;
};

// `given`: types that the user declares. Throws Error(kMalformed) for a malformed model and where it declares another
// type than a value has; Error(kUsage) for a name in `given` that no node makes, or that has another type.
ModelTypes find_types(const onnx::Model& model, const std::map<std::string, onnx::ValueInfo>& given,
                      stream::Budget& budget);

// Of an initializer. Sparse ones are tensors to nodes: only the file has them as something else.
onnx::ValueInfo type_of_constant(const onnx::Tensor& tensor);
onnx::ValueInfo type_of_constant(const onnx::SparseTensor& tensor);

}  // namespace lowtide::layout
