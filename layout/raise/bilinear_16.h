// SPDX-License-Identifier: Apache-2.0
// RESIZE_BILINEAR of integers of 16 bits. LiteRT's kernel counts places in units of 2^-10 of a row: the distance
// between two rows of the result is rounded to such a unit, and the error grows from row to row. Source:
// tflite/kernels/internal/reference/resize_bilinear.h.
#pragma once

#include "layout/raise/nearest_places.h"
#include "layout/raise/raising.h"

namespace lowtide::layout {

// Whether the kernel's places along an axis are those of Resize.
bool has_exact_places(core::Symbols& symbols, Coordinates coordinates, core::Dim from, core::Dim to);

// The image in ONNX's axis order, resized as the kernel does it.
void raise_bilinear_16(Raising& r, Coordinates coordinates);

}  // namespace lowtide::layout
