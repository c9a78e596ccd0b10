// SPDX-License-Identifier: Apache-2.0
// Between integers with a scale and a zero point, and floats: what the lowerings of quantized operators share.
#pragma once

#include "layout/lower/lowering.h"

namespace lowtide::layout {

// x as f32. A constant stays one, also where that makes it larger: weights are to be weights.
Val as_floats(Lowering& lo, Val x);

// Each entry along `axis` for `block` elements, `extent` in all; the last block may be cut off.
stream::RecipeRef along_blocks(const stream::RecipeRef& entries, int axis, int64_t block, int64_t extent);

// `levels`, f32 in units of the scale, as the integers `to`: rounded half to even, then the zero point added (it may be
// absent, and broadcasts), then saturated.
Val as_levels(Lowering& lo, Val levels, Val zero, DType to);

// A scale or zero point of a whole tensor, as rank 0; refused when it is a list.
Val one_parameter(Lowering& lo, Val parameter);

// 8-bit integers that stand for scale * (q - zero); the zero point may be absent.
struct Levels {
  Val q, scale, zero;
};
// x (f32) on 256 levels that reach from its least to its largest element, and over 0: q and zero are u8, scale and zero
// of rank 0. Data that are all 0 get the scale 1, as in ONNX Runtime.
Levels dynamically_quantized(Lowering& lo, Val x);

// The matrix product as f32: sums of integers, exact, times both scales. A list of the left scales is one for each row,
// of the right ones for each column.
Val real_product(Lowering& lo, const Levels& left, const Levels& right);

}  // namespace lowtide::layout
