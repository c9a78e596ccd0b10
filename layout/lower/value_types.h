// SPDX-License-Identifier: Apache-2.0
// What lowering finds out about the values of an ONNX graph.
//
// The trap: inside the core graph f16 and bf16 are f32, so a value of type f32 here may be one of halves in ONNX.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "layout/core/graph.h"
#include "stream/onnx/model.h"

namespace lowtide::layout {

struct ValueType {
  stream::DType dtype = stream::DType::kUndefined;
  std::vector<onnx::Dimension> dims;  // symbols by their formulas: equal names are equal extents
  stream::RecipeRef integers;         // the elements, of a small tensor of integers that are known at conversion
  bool is_list = false;               // a sequence: nothing else is set
};

// By name; of the main graph's values, inputs included.
using ValueTypes = std::unordered_map<std::string, ValueType>;

// Of a value whose dtype is known.
ValueType type_of(core::Graph& graph, core::ValueId value);

}  // namespace lowtide::layout
