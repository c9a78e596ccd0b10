// SPDX-License-Identifier: Apache-2.0
// What the constructors of recipes have in common.
#pragma once

#include <vector>

#include "stream/recipe/recipe.h"

namespace lowtide::stream::recipe {

// The recipe as it is, but for empty tensors, which are fills: there is nothing to compute. Throws Error(kUnsupported)
// beyond kMaxSteps.
RecipeRef make(DType dtype, Shape dims, Step step, std::vector<RecipeRef> from = {});
// Non-null when the tensor's bytes are one raw run of a file. It is not yet plain_stored's: the bytes of booleans
// are still to be made 0 or 1.
const step::Stored* raw_stored(const Recipe& recipe);
// Whether an integer or boolean type holds the value.
bool fits(int64_t value, DType dtype);

}  // namespace lowtide::stream::recipe
