// SPDX-License-Identifier: Apache-2.0
// The sliding window of convolutions and pools: its positions, and TFLite's padding for them.
//
// ONNX has pads as numbers (or SAME_UPPER, SAME_LOWER), TFLite only SAME and VALID. SAME is used where it pads exactly
// as ONNX does: with pad 3, kernel 7, stride 2 it does for 225 elements (3 and 3), but not for 224 (2 and 3). Other
// pads become a PAD before the op.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "layout/lower/lowering.h"

namespace lowtide::layout {

// The window along one spatial axis of `size` elements: `out` positions, the first one starts at -`before`.
struct WindowAxis {
  int64_t kernel = 1, stride = 1, dilation = 1;
  Dim size = 1, out = 1;
  Dim lengthened = 0;  // so much of `size` is not in the input (ShortWindow)
  // With a PAD by these, VALID gives `out` windows. Formulas of the size with SAME, where the stride leaves an unknown
  // part of it.
  Dim before = 0, after = 0;
  Dim declared_after = 0;    // ONNX's pad at the end, which count_include_pad counts
  bool more_before = false;  // SAME_LOWER: the odd element is at the beginning
  bool fits_valid = true, fits_same = true;
  bool is_short = false;  // ShortWindow::kOne: the only window reaches beyond the pads

  int64_t effective_kernel() const { return (kernel - 1) * dilation + 1; }
  bool is_padded_at_run_time() const { return core::is_symbol(before) || core::is_symbol(after); }
};

// What becomes of a window that is longer than an axis with its pads, by less than a stride. Pools have one window
// there (ONNX Runtime's pool_attributes.h divides towards zero), convolutions refuse it. An axis that is known at run
// time only may or may not be so short: it is taken to be lengthened to hold the window (lengthen_image).
enum class ShortWindow { kMalformed, kOne };

// Reads kernel_shape, strides, dilations, pads and auto_pad for axes of these sizes, which may be symbols. `weights`:
// the spatial shape of the weights; without it kernel_shape is required. Throws where a static size is needed.
std::vector<WindowAxis> read_window(Lowering& lo, std::span<const Dim> sizes,
                                    std::optional<std::vector<int64_t>> weights, bool ceil_mode = false,
                                    ShortWindow short_window = ShortWindow::kMalformed);

// Chooses TFLite's padding for these axes of x, which start at `first_axis`. If neither SAME nor VALID fits, x is
// padded with `value`, and the padding is VALID.
Padding choose_padding(Lowering& lo, Val& x, std::span<const WindowAxis> axes, size_t first_axis, double value);

// An image [N, H, W, C] with as many elements of `border` behind it as its axes are lengthened by. Their number is
// known at run time: none, but for the smallest images. Nothing where no axis is lengthened.
Val lengthen_image(Lowering& lo, Val image, const WindowAxis& h, const WindowAxis& w, double border);

// [N, C, spatial...] -> NHWC or NDHWC; with one spatial axis [N, C, W] -> [N, 1, W, C].
Val to_image(Lowering& lo, Val x);
// The inverse, for `spatial` axes.
Val from_image(Lowering& lo, Val y, int spatial);
// Only the transpose: [N, spatial..., C] -> [N, C, spatial...], and the inverse.
Val channels_first(Lowering& lo, Val x);
Val channels_last(Lowering& lo, Val y);
// The axes of an image: one axis gets a height of 1 before it.
std::vector<WindowAxis> as_image(std::vector<WindowAxis> axes);

// `value` as TFLite's 32-bit type; malformed when it does not fit.
int to_int(Lowering& lo, int64_t value, const char* what);

}  // namespace lowtide::layout
