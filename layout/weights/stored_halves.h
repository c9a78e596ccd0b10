// SPDX-License-Identifier: Apache-2.0
// Weights that the ONNX model stores in f16. The graph reads them as f32 (docs/decisions/half-precision.md); as long as
// nothing was computed with them, the file can hold the f16 elements themselves.
#pragma once

#include "stream/recipe/recipe.h"

namespace lowtide::layout {

// The f16 tensor whose elements, read as f32, are exactly those of `weight`, an f32 recipe. Null when there is none:
// when no element comes from an f16 tensor of the model, or when arithmetic changed the elements. Movements (permute,
// reshape, slice, concatenate, pad, gather, broadcast) are done to the f16 elements instead; constants that are joined
// to them must be exact in f16. No bit changes, those of NaNs included.
stream::RecipeRef stored_halves(const stream::RecipeRef& weight);

// True when any element is computed from an f16 tensor.
bool reads_halves(const stream::RecipeRef& weight);

}  // namespace lowtide::layout
