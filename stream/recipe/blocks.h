// SPDX-License-Identifier: Apache-2.0
// How a large permutation is cut when what lies together in the result is scattered over the input.
//
//     a strip of the result          a block
//     in      out                    in      out
//     |.#...  ------                 |.....  ------      Columns of a tall matrix are runs of a few bytes, read again
//     |.#...  ######                 |.##..  ..##..      with every page for each strip. A block is rows of some
//     |.#...  ------                 |.##..  ..##..      thousand bytes on both sides.
#pragma once

#include <optional>

#include "stream/recipe/box.h"
#include "stream/recipe/recipe.h"

namespace lowtide::stream {

struct Blocks {
  RecipeRef recipe;  // the same elements in the same order, of the dims that blocks are boxes of
  Shape size;        // of a block; those at the ends are smaller

  uint64_t count() const;
  // Block 0 holds the first element; the last axis is the fastest.
  Box at(uint64_t index) const;
};

// Blocks of at most `bytes` (lanes), where they are read in clearly longer runs than a stretch of as many bytes;
// nullopt where stretches do, and for types whose elements are no whole bytes.
std::optional<Blocks> blocks_of(const RecipeRef& recipe, uint64_t bytes);

}  // namespace lowtide::stream
