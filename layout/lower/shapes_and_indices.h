// SPDX-License-Identifier: Apache-2.0
// Shapes and indices, known at conversion or computed at run time.
//
// The trap: in ONNX, negative indices and axes count from the end, and 0 in a shape means "as in the input". TFLite's
// kernels take neither, and require i32 where ONNX has i64.
#pragma once

#include <limits>
#include <span>
#include <vector>

#include "layout/lower/lowering.h"

namespace lowtide::layout {

// False where either is a symbol, which may equal anything.
inline bool known_to_differ(Dim a, Dim b) { return a != b && !core::is_symbol(a) && !core::is_symbol(b); }
// x reshaped; any number of the dimensions may be symbols.
Val reshape_to(Lowering& lo, Val x, std::span<const Dim> dims);
// A list (rank 1) whose length is known from elsewhere, for example from the length of another list that must have as
// many elements. A list of another length is an error when the model runs, as in ONNX Runtime.
Val with_length(Lowering& lo, Val list, Dim length);
// Removes axes of size 1, or inserts them (`axes` of the result, normalised).
Val squeeze_axes(Lowering& lo, Val x, const std::vector<int>& axes);
Val unsqueeze_axes(Lowering& lo, Val x, const std::vector<int>& axes);
// A tensor of one element as rank 0.
Val as_scalar(Lowering& lo, Val x);
// A dimension as a scalar of an integer dtype.
Val dim_as_scalar(Lowering& lo, Dim dim, DType dtype);
// `dims` filled with a scalar.
Val filled_with(Lowering& lo, std::span<const Dim> dims, Val scalar);
// 0, 1, ... dim - 1.
Val iota(Lowering& lo, Dim dim, DType dtype);
// A list of sizes as i32, computed from the shapes of graph inputs where the elements are symbols. i64 values beyond
// -most..most are clamped (INT64_MAX means "to the end"). A number that is added to others needs a smaller `most`, so
// that the sum stays within 32 bits.
Val as_i32_clamped(Lowering& lo, Val list, int64_t most = std::numeric_limits<int32_t>::max());
// Whether it is certain that no number of a list is below 0: extents are not, nor what is made of them without
// differences.
bool never_negative(Lowering& lo, Val numbers);
// Indices into an axis of size `dim` with negative ones (which count from the end) made non-negative.
Val non_negative_indices(Lowering& lo, Val indices, Dim dim);
// The same for index tuples: entry j of the last axis of `indices` indexes dims[j].
Val non_negative_tuples(Lowering& lo, Val indices, std::span<const Dim> dims);
// For each of `count` rows the last of the `updates` ([n] or [n, width]) that `indices` (i32 [n], n not 0) send there;
// of `otherwise` where there is none.
Val last_updates_of_rows(Lowering& lo, Val updates, Val indices, Dim count, Val otherwise);
// Of each of `rank` axes how often a list names it (i32 [rank]); `axes` (i32, any sign) may be known at run time only.
Val times_listed(Lowering& lo, Val axes, int rank);
// The places of the true elements of a list, i64 [count, 1]. `count` is computed from the length of a list of axes,
// `listed`, as if each axis were named once. Such a list of two or more axes, known at run time only, may name one
// twice: then there are more places than `count`, the rank of the result would be wrong, and LiteRT reports an error.
Val places_of(Lowering& lo, Val which, Dim count, Dim listed);
// An i32 list with one element for each axis, for `axes` (i32, any sign): values[i] at axes[i], elsewhere `otherwise`.
// Of an axis that is listed twice, the last value counts.
Val scattered_to_axes(Lowering& lo, Val values, Val axes, int rank, int64_t otherwise);

}  // namespace lowtide::layout
