// SPDX-License-Identifier: Apache-2.0
// Attributes that many operators have, and lists of axes.
#pragma once

#include <vector>

#include "layout/lower/lowering.h"

namespace lowtide::layout {

// `consumed_inputs` of opsets 1 to 5 is a hint to reuse memory; it does not affect the result.
void ignore_consumed_inputs(Lowering& lo);

// A list attribute of `count` numbers, each `otherwise` when it is absent. Malformed when the count differs, or a
// number is below `least` or above INT32_MAX, the limit of TFLite's options (strides, dilations, pads).
std::vector<int64_t> attr_int_list(Lowering& lo, const char* name, size_t count, int64_t otherwise, int64_t least);

// As Lowering::attr_dtype, for an attribute whose 0, which names no type, means that it is not given.
DType attr_dtype_or_0(Lowering& lo, const char* name, DType otherwise);

// An attribute that names the floating-point type to compute in; malformed when it names another type. Halves, which
// are stored and not computed in (docs/decisions/half-precision.md), become f32.
DType attr_float_dtype(Lowering& lo, const char* name, DType otherwise);

// first, first + 1, ..., rank - 1.
std::vector<int> axes_from(int first, int rank);

}  // namespace lowtide::layout
