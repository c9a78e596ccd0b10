// SPDX-License-Identifier: Apache-2.0
// Values of --const: what an input is frozen to.
#pragma once

#include <string>

#include "stream/onnx/model.h"

namespace lowtide::tools {

// `text` is a number, a list such as 1,2,3, or the path of a .npy file (C order, little-endian), which is read when it
// is needed and becomes one of the model's sources. Numbers get the input's element type; their count must give the
// input's shape, in which one dimension may be dynamic. Throws Error(kUsage), and Error(kMalformed, kNotFound, ...) for
// the file.
stream::RecipeRef input_constant(onnx::Model& model, const onnx::ValueInfo& input, const std::string& text);

}  // namespace lowtide::tools
