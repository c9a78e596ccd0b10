// SPDX-License-Identifier: Apache-2.0
// What is done to a constant between the ONNX file and the TFLite file, in words for a report.
#pragma once

#include <string>

#include "stream/recipe/recipe.h"

namespace lowtide::emit {

// "f32[64,3,7,7] from model.onnx at byte 4096, axes permuted to 0,2,3,1, quantized to i8 with 64 scales": the largest
// operand and the steps that are applied to it, at most twelve. Bytes are in file names without their folder.
std::string recipe_text(const stream::Recipe& recipe);

// The type in which a recipe's largest operand is in its file; kUndefined when none is read from a file.
stream::DType type_in_file(const stream::Recipe& recipe);

}  // namespace lowtide::emit
