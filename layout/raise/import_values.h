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

// Whether two sizes of a file do not contradict each other: an open one may be equal to any other. What differs at run
// time is an error of the runtime, as in LiteRT.
bool may_be_equal(core::Dim a, core::Dim b);
bool may_be_equal(const core::Shape& a, const core::Shape& b);

// Thrown where an operator runs only if an open dimension has this size, and ONNX's form would not notice another one.
struct OpenDimensionIs {
  core::Dim open;
  int64_t size;
};
// Throws Error(kMalformed) with this text where two sizes differ, OpenDimensionIs where only one is known, and
// Unsupported where two are open that are not known to be equal.
void need_equal(core::Dim a, core::Dim b, const std::string& text);

[[noreturn]] void malformed_model(std::string text);

}  // namespace lowtide::layout
