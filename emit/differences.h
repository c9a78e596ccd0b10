// SPDX-License-Identifier: Apache-2.0
// The differences of two TFLite models. Tensors and operators are compared by names and contents, independent of their
// order in the files.
#pragma once

#include <string>
#include <vector>

#include "stream/recipe/recipe.h"
#include "stream/tflite/model.h"

namespace lowtide::emit {

// One line for each difference, at most `most`, then one with the number of the others; empty when the graphs are
// equal. Not compared: the contents of constants, and of metadata and custom options that the reader does not keep; and
// what depends on how a file stores its buffers, or on the version of Lowtide that wrote it.
std::vector<std::string> graph_differences(const tfl::Model& expected, const tfl::Model& found, size_t most);

// Whether the descriptions say that different versions of Lowtide wrote the two.
bool other_version(const tfl::Model& expected, const tfl::Model& found);

// A constant with the same name, type and shape in both models.
struct ConstantPair {
  std::string tensor;
  stream::RecipeRef expected, found;
};
// In the order of `found`. Tensors that share bytes in both are listed once.
std::vector<ConstantPair> constants_of_both(const tfl::Model& expected, const tfl::Model& found);

}  // namespace lowtide::emit
