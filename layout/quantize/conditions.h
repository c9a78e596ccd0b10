// SPDX-License-Identifier: Apache-2.0
// For which scales the integer kernels are right. LiteRT checks some of these conditions, XNNPACK refuses a whole model
// for others, and what neither checks is computed wrongly; docs/decisions/integer-kernels.md has the figures.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "layout/quantize/grid.h"

namespace lowtide::layout {

// Each function returns false with the reason.

// Ops with weights: the factor from sums to the result, for each channel.
bool product_fits(Kind kind, float data, const std::vector<float>& weights, float result, std::string& reason);
// The finest scale of an op's weights, or of those of a channel: a finer one would make the factor so small that sums
// vanish, or leave the bias no room in 32 bits.
double finest_weights_scale(double bias, float data, float result);
// How many steps of the result a bias loses when it is rounded to a scale.
double steps_lost(double bias, float scale, float result);
// Whether sums or products of at most this magnitude have room in the kernel, which multiplies them by `factor`. It
// keeps them in 32 bits, and where the factor is 1 or more it shifts them to the left first. With `is_wide` it keeps
// them in 64 bits, and their multiples in 32.
bool sums_have_room(double most, double factor, bool is_wide, std::string& reason);
// Ops without weights whose kernel rescales its operands.
bool ratios_fit(Kind kind, const std::vector<float>& operands, float result, std::string& reason);

// The integers that an operand can have, without the zero point.
struct Steps {
  int64_t least = 0, most = 0;
};
// All integers of the grid's type.
Steps steps_of(const TensorGrid& grid);
// The largest magnitude among them.
double most_steps(const Steps& steps);
inline double most_steps(const TensorGrid& grid) { return most_steps(steps_of(grid)); }
// Whether results, before they are saturated, have no more bits than the kernel keeps of them.
bool result_fits(Kind kind, const std::vector<Steps>& steps, const std::vector<float>& scales, const TensorGrid& result,
                 std::string& reason);
// The grid, in i8, on which kernels of this kind give their result always; nullopt for other kinds.
std::optional<TensorGrid> fixed_grid(Kind kind);
// Whether the result is on that grid.
bool is_fixed_grid(Kind kind, const TensorGrid& result, std::string& reason);

// Whether the integer kernel of RESIZE_BILINEAR takes its elements about where they are, along an axis.
bool positions_fit(core::Symbols& symbols, core::Dim in, core::Dim out, bool align_corners, std::string& reason);

}  // namespace lowtide::layout
