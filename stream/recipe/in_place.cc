// SPDX-License-Identifier: Apache-2.0
#include "stream/recipe/in_place.h"

#include "stream/file/file.h"

namespace lowtide::stream {

const step::Extent* stored_extent(const Recipe& recipe) {
  const step::Extent* extent = recipe::plain_extent(recipe);
  return extent && recipe.bytes() >= kLeastInPlace && !extent->source->path().empty() ? extent : nullptr;
}

const step::Extent* in_place_extent(const Recipe& recipe) {
  const step::Extent* extent = stored_extent(recipe);
  return extent && extent->stretches[0].offset % kInPlaceAlignment == 0 ? extent : nullptr;
}

bool reads_halves_in_place(const Recipe& recipe) {
  return recipe.dtype == DType::kFloat32 && std::holds_alternative<step::Cast>(recipe.step) &&
         recipe.from[0]->dtype == DType::kFloat16 && in_place_extent(*recipe.from[0]);
}

}  // namespace lowtide::stream
