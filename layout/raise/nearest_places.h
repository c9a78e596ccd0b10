// SPDX-License-Identifier: Apache-2.0
// Which row or column of an image RESIZE_NEAREST_NEIGHBOR takes for each one of its result. LiteRT multiplies by the
// quotient of the sizes, and ONNX Runtime divides by its inverse: both round, and where the exact place is a whole
// number, or half of one, they may take neighbours.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "layout/raise/raising.h"

namespace lowtide::layout {

enum class Coordinates : uint8_t { kAsymmetric, kHalfPixel, kAlignCorners };
std::string_view name_of(Coordinates coordinates);  // ONNX's coordinate_transformation_mode

// An axis of the image and of the result. LiteRT has a kernel of its own for elements of 8 bits.
struct NearestAxis {
  Coordinates coordinates;
  bool has_bytes;
  core::Dim from, to;
};

// Whether Resize takes the same rows, with nearest_mode floor for kAsymmetric and round_prefer_ceil for the others.
bool resize_takes_the_same(core::Symbols& symbols, const NearestAxis& axis);

// The places as indices for a Gather: a constant list where both sizes are known, else computed. `axis` is that of the
// data in ONNX's order; input 1 has the sizes of the result.
std::string nearest_places(Raising& r, const NearestAxis& sizes, size_t axis);

}  // namespace lowtide::layout
