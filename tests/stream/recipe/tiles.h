// SPDX-License-Identifier: Apache-2.0
// Reads a recipe with tiles of a given size: the bytes must not depend on it.
#pragma once

#include <vector>

#include "stream/recipe/step_reader.h"

namespace lowtide::stream {

inline std::vector<std::byte> read_with_tiles(const RecipeRef& recipe, uint64_t tile_bytes) {
  Budget budget(uint64_t{16} << 20);
  Needs needs = needs_of(*recipe);
  Scratch scratch(budget, needs.tiles, tile_bytes, needs.kept);
  std::vector<std::byte> out(recipe->elements() * static_cast<uint64_t>(lane_bytes(recipe->dtype)));
  if (!out.empty()) make_reader(*recipe, scratch)->read(whole(recipe->dims), out.data());
  return out;
}

}  // namespace lowtide::stream
