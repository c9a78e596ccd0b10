// SPDX-License-Identifier: Apache-2.0
// Tensors of a TFLite file as values: their types and scales, checked.
#pragma once

#include <optional>
#include <string>

#include "layout/core/graph.h"
#include "stream/tflite/model.h"

namespace lowtide::layout {

// The core's name of a builtin; nullopt: it has none.
std::optional<core::Kind> kind_of_builtin(int32_t code);

// Of integers that stand for real numbers; nullopt for other tensors. Throws Error(kMalformed) for scales and zero
// points that are none, and Unsupported for a form that core::Quantization does not have.
std::optional<core::Quantization> quantization_of(const tfl::Tensor& tensor);

// An input of graph 0 that holds what the run before left in a variable, and its value at the first run.
struct RaisedState {
  size_t input = 0;              // of Graph::inputs
  std::optional<size_t> output;  // of Graph::outputs: what this run leaves; nothing where the variable is only read
  stream::RecipeRef initial;
};

bool is_complex(const tfl::Tensor& tensor);

// Refuses a tensor that is not an array of numbers, or is a variable.
void need_numbers(const tfl::Tensor& tensor);
// The same, of a variable too.
void need_array(const tfl::Tensor& tensor);

[[noreturn]] void malformed_model(std::string text);

}  // namespace lowtide::layout
