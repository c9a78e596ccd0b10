// SPDX-License-Identifier: Apache-2.0
// Conversion between floats and integers with a scale and a zero point, for the lowerings of quantized operators.
#pragma once

#include <optional>

#include "layout/lower/lowering.h"

namespace lowtide::layout {

// x as f32. A constant stays a constant although that makes it larger, because it may be a weight.
Val as_floats(Builder& b, Val x);

// Repeats each entry along `axis` for `block` elements, `axis_size` in all; the last block may be shorter.
stream::RecipeRef along_blocks(const stream::RecipeRef& entries, int axis, int64_t block, int64_t axis_size);

// `levels` (f32, in units of the scale) as integers of type `to`: rounded half to even, the zero point added (it may be
// absent, and broadcasts), saturated.
Val as_levels(Builder& b, Val levels, Val zero, DType to);

// A per-tensor scale or zero point as rank 0; refused when it has several elements.
Val one_parameter(Lowering& lo, Val parameter);

// 8-bit integers q that represent scale * (q - zero); the zero point may be absent.
struct Levels {
  Val q, scale, zero;
};
// x (f32) quantized to 256 levels from its smallest to its largest element, with 0 included: q and zero are u8, scale
// and zero have rank 0. If all elements are 0 the scale is 1, as in ONNX Runtime.
Levels dynamically_quantized(Builder& b, Val x);

// Scales and zero points that are constants, per tensor, of 8 bits or of 16 without zero point: the grid of a TFLite
// tensor. Integer kernels are chosen for what is between real_of() and on_grid() (quantize/quantize.h).
std::optional<core::Quantization> constant_grid(Lowering& lo, Val scale, Val zero, DType dtype);
// x's real numbers: a DEQUANTIZE of x on this grid; a constant stays one.
Val real_of(Lowering& lo, Val x, const core::Quantization& grid);
// x's integers as those of a tensor that has the grid's parameters, for builtins that read them.
Val with_grid(Builder& b, Val x, const core::Quantization& grid);
// Real numbers as plain integers of this grid.
Val on_grid(Lowering& lo, Val real, const core::Quantization& grid, DType dtype);

// The matrix product as f32: exact integer sums times both scales. Lists of scales are per row on the left, per column
// on the right. Defined in integer_products.cc.
Val real_product(Lowering& lo, const Levels& left, const Levels& right);

}  // namespace lowtide::layout
