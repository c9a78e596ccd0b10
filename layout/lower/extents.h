// SPDX-License-Identifier: Apache-2.0
// Shapes and indices as the lowerings of data-moving operators need them, known or computed at run time.
//
// The trap: ONNX counts negative indices and axes from the end and lets a shape hold 0 for "as before"; TFLite's
// kernels take neither, and want i32 where ONNX has i64.
#pragma once

#include <span>
#include <vector>

#include "layout/lower/lowering.h"

namespace lowtide::layout {

// Symbols may be equal to anything.
inline bool surely_differ(Dim a, Dim b) { return a != b && !core::is_symbol(a) && !core::is_symbol(b); }
// x in another shape of as many elements; any number of the dimensions may be symbols.
Val reshape_to(Lowering& lo, Val x, std::span<const Dim> dims);
// Axes of extent 1 taken out, or put in (axes of the result, normalised).
Val drop_ones(Lowering& lo, Val x, const std::vector<int>& axes);
Val add_ones(Lowering& lo, Val x, const std::vector<int>& axes);
// One element in any shape as rank 0.
Val as_scalar(Lowering& lo, Val x);
// A dimension as a scalar of an integer dtype.
Val extent(Lowering& lo, Dim dim, DType dtype);
// `dims` filled with a scalar.
Val filled_with(Lowering& lo, std::span<const Dim> dims, Val scalar);
// 0, 1, .. dim-1.
Val counting(Lowering& lo, Dim dim, DType dtype);
// A list of sizes as i32, from the shapes of the graph's inputs where its elements are known symbolically; i64 values
// beyond are clamped (INT64_MAX means "to the end").
Val as_i32_clamped(Lowering& lo, Val list);
// Indices into an axis of extent `dim`, where negative ones count from the end, as non-negative ones.
Val wrapped(Lowering& lo, Val indices, Dim dim);
// The same for the last axis of `indices`, whose entry j indexes dims[j].
Val wrapped_tuples(Lowering& lo, Val indices, std::span<const Dim> dims);
// A list with one i32 for each axis, where `axes` (i32, any sign) is only known at run time: values[i] at axes[i], the
// rest `otherwise`.
Val spread_by_axes(Lowering& lo, Val values, Val axes, int rank, int64_t otherwise);

}  // namespace lowtide::layout
