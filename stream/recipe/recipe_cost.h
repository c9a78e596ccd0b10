// SPDX-License-Identifier: Apache-2.0
// What it takes to run a recipe, before it is run: an element of a sum may be made of billions of others.
#pragma once

#include "stream/recipe/recipe.h"

namespace lowtide::stream::recipe {

// Whether a reader of `step` works `input` out whole, once, because it asks for its elements again and again.
bool is_kept(const Recipe& step, const Recipe& input);
// From the costs of what the recipe is made of; its other fields are filled in.
Cost cost_of(const Recipe& recipe);

}  // namespace lowtide::stream::recipe
