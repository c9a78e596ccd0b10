// SPDX-License-Identifier: Apache-2.0
// What a user decides of a model's inputs and outputs before it is converted: edits of the ONNX model as it was read.
// What the passes then fold or drop follows from them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "stream/onnx/model.h"

namespace lowtide::layout {

// Replaces dimensions that have a symbol (dim_param) as key in `extents` by its value, in the types of all values, also
// those of subgraphs. Throws Error(kUsage) for a symbol that no input has: the text lists those that inputs have.
void fix_dimensions(onnx::Model& model, const std::map<std::string, int64_t>& extents);

// An initializer that is listed as an input is none.
std::vector<std::string> input_names(const onnx::Model& model);
// The type of the input `name`. Throws Error(kUsage) with the
// nearest name; `option` begins the text.
const onnx::ValueInfo& find_input(const onnx::Model& model, const std::string& option, const std::string& name);

// Turns inputs into initializers. Each recipe must have the input's element type and fit its shape. Throws
// Error(kUsage) where it does not, or where there is no such input.
void freeze_inputs(onnx::Model& model, const std::map<std::string, stream::RecipeRef>& constants);

// Inputs that take raw images: each becomes u8, and (x - mean) / std is computed in f32 before its users. `mean` and
// `std` have one value, or one for each channel, which is axis 1, or else the last. Throws Error(kUsage) for an input
// that is not f32 or f16, or where the number of values fits neither axis.
struct RawImages {
  std::vector<std::string> names;
  std::vector<float> mean, std;
};
void take_raw_images(onnx::Model& model, const RawImages& images);
// The axis with as many elements as there are values of `mean` and `std`: 1, or else the last. Throws Error(kUsage).
size_t channel_axis(const onnx::ValueInfo& input, size_t values);

// Makes `names`, in their order, the outputs: names of any values of the main graph. Nodes and inputs that they do not
// need are removed. A value has the element type that the model declares of it. Throws Error(kUsage) for a name that is
// not in the graph, or is given twice.
void choose_outputs(onnx::Model& model, const std::vector<std::string>& names);

}  // namespace lowtide::layout
