// SPDX-License-Identifier: Apache-2.0
// How a large permutation is divided when elements that are neighbours in the result are far apart in the input.
//
//     a strip of the result          a block
//     in      out                    in      out
//     |.#...  ------                 |.....  ------      Columns of a tall matrix are runs of a few bytes, read again
//     |.#...  ######                 |.##..  ..##..      with every page for each strip. A block has rows of some
//     |.#...  ------                 |.##..  ..##..      thousand bytes on both sides.
//
// A row that is written costs about four times what a row that is read costs (0.5 and 1.9 us a call on ext4, and less
// when it is whole pages), so the rows of a block are longer in the result. A strip has one row there.
#pragma once

#include <optional>

#include "stream/recipe/box.h"
#include "stream/recipe/recipe.h"

namespace lowtide::stream {

struct Blocks {
  RecipeRef recipe;  // the same elements in the same order, of the dims that blocks are boxes of
  Shape dims;        // what is divided: so many along each axis
  Shape size;        // of a block; those at the ends are smaller
  Shape first;       // of the first block along each axis, at most `size`

  // Divides only so many of the first elements, whole steps along the first axis.
  void keep_first(uint64_t elements);
  uint64_t count() const;
  // Block 0 holds the first element; the last axis is the fastest.
  Box at(uint64_t index) const;
};

// Blocks of at most `bytes` (lanes), where they cost clearly less than strips of as many bytes; nullopt where they do
// not, and for types whose elements are not whole bytes. `position`: of the result in its file, so that rows are whole
// pages of the file where the row of the tensor is.
std::optional<Blocks> blocks_of(const RecipeRef& recipe, uint64_t bytes, uint64_t position = 0);

// True when a strip of so many bytes of the result is many rows of the input: then a larger strip has longer ones.
bool is_scattered(const RecipeRef& recipe, uint64_t bytes);

}  // namespace lowtide::stream
