// SPDX-License-Identifier: Apache-2.0
// Float constants that the model stores as integers with a scale, and maybe a zero point, for each block of elements
// along an axis: MatMulNBits, DequantizeLinear with block_size. TFLite has no parameters of that kind which all kernels
// read, so such a constant is a recipe of floats until its final form is chosen (weights/shrink_weights.h).
#pragma once

#include <optional>

#include "stream/recipe/recipe.h"

namespace lowtide::core {

// floats = reshape((integers - zero) * scale): the axis of the blocks is two axes here, blocks and elements of a block.
struct BlockConstant {
  stream::RecipeRef integers;  // i4, u4, i8 or u8
  stream::RecipeRef zero;      // f32, 1 along the elements of a block, or on all axes; null: there is none
  stream::RecipeRef scale;     // f32, as zero
};

// The constant as floats. `integers` have any of the types above, or what fits f32; `scale` and `zero` (f32; zero may
// be null) have one entry for each block of `block` elements along `axis`, whose extent is a multiple of it.
stream::RecipeRef block_floats(const stream::RecipeRef& integers, const stream::RecipeRef& zero,
                               const stream::RecipeRef& scale, int axis, int64_t block);

// The parts of what block_floats() made and passes permuted since; nullopt for other constants.
std::optional<BlockConstant> block_constant(const stream::RecipeRef& floats);

// A zero point that all blocks share, if it is a whole number.
std::optional<int64_t> common_zero(const BlockConstant& constant);

// Whether all zero points are known to be whole numbers: the operators allow floats.
bool has_whole_zeros(const BlockConstant& constant);

}  // namespace lowtide::core
