// SPDX-License-Identifier: Apache-2.0
// The integers behind a float constant: the model stores weights as integers, scales and zero points, and the lowering
// makes a recipe of floats from them, which later passes permute, reshape, slice, join, and multiply by factors. A
// negative factor is in the integers, because no kernel takes a negative scale.
#pragma once

#include <optional>
#include <vector>

#include "stream/file/budget.h"
#include "stream/recipe/recipe.h"

namespace lowtide::core {

// floats[i] = (integers[i] - zero[c]) * scale[c], c being the index along `axis`.
struct IntegerConstant {
  stream::RecipeRef integers;
  std::vector<float> scale;   // one, or one for each index of the axis; not negative, but maybe 0
  std::vector<int64_t> zero;  // as many
  int axis = -1;              // -1: one scale

  bool all_zero_points_are(int64_t value) const;
  bool all_zero_points_fit() const;  // the type of the integers
};

// The most that are kept, in some tens of bytes each: vocabularies of language models have up to 262,400 rows.
inline constexpr uint64_t kMostScales = 512 * 1024;

// Nullopt when the elements are not dequantized integers, or a step behind that changes them.
// Reads zero points, at most stream::kSmallElements.
std::optional<IntegerConstant> integer_constant(const stream::RecipeRef& floats, stream::Budget& budget);

// Elements plus `offset`, as another integer type; every sum must fit it.
stream::RecipeRef shifted_integers(const stream::RecipeRef& integers, int64_t offset, stream::DType to);

}  // namespace lowtide::core
