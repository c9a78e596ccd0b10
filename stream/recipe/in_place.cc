// SPDX-License-Identifier: Apache-2.0
#include "stream/recipe/in_place.h"

#include "stream/file/file.h"

namespace lowtide::stream {

const step::Stored* stored_in_file(const Recipe& recipe) {
  const step::Stored* stored = recipe::plain_stored(recipe);
  return stored && recipe.bytes() >= kLeastInPlace && !stored->source->path().empty() ? stored : nullptr;
}

const step::Stored* stored_in_place(const Recipe& recipe) {
  const step::Stored* stored = stored_in_file(recipe);
  return stored && stored->file_runs[0].offset % kInPlaceAlignment == 0 ? stored : nullptr;
}

bool reads_halves_in_place(const Recipe& recipe) {
  return recipe.dtype == DType::kFloat32 && std::holds_alternative<step::Cast>(recipe.step) &&
         recipe.from[0]->dtype == DType::kFloat16 && stored_in_place(*recipe.from[0]);
}

}  // namespace lowtide::stream
