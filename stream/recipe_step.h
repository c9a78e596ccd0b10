// What the constructors of recipes have in common.
#pragma once

#include <vector>

#include "stream/recipe.h"

namespace lowtide::stream::recipe {

// The recipe as it is, but for empty tensors, which are fills: there is nothing to compute. Throws Error(kUnsupported)
// beyond kMaxSteps.
RecipeRef make(DType dtype, Shape dims, Step step, std::vector<RecipeRef> from = {});
// Whether an integer or boolean type holds the value.
bool fits(int64_t value, DType dtype);

}  // namespace lowtide::stream::recipe
