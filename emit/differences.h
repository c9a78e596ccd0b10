// SPDX-License-Identifier: Apache-2.0
// In what two TFLite models differ: tensors and operators by their names and contents, whatever the order in which a
// writer has put them down.
#pragma once

#include <string>
#include <vector>

#include "stream/recipe/recipe.h"
#include "stream/tflite/model.h"

namespace lowtide::emit {

// A line for each, at most `most` and then one that says how many more; empty: the same graph. The contents of
// constants are not looked at.
std::vector<std::string> graph_differences(const tfl::Model& expected, const tfl::Model& found, size_t most);

// Constants that both models have under one name, of one type and shape.
struct ConstantPair {
  std::string tensor;
  stream::RecipeRef expected, found;
};
// Once each, however many tensors share the bytes, in the order of the found ones.
std::vector<ConstantPair> constants_of_both(const tfl::Model& expected, const tfl::Model& found);

}  // namespace lowtide::emit
