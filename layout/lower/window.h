// SPDX-License-Identifier: Apache-2.0
// The sliding window that convolutions and pools share: where it stands, and which of TFLite's two paddings says so.
//
// ONNX gives pads as numbers (or SAME_UPPER, SAME_LOWER), TFLite only SAME and VALID. SAME is used exactly where its
// own pads are ONNX's: with pad 3, kernel 7, stride 2 it is for 225 elements (3 and 3), and it is not for 224 (2 and
// 3). What neither says becomes a PAD before.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "layout/lower/lowering.h"

namespace lowtide::layout {

// The window along one spatial axis of `size` elements: `out` positions, the first one `before` elements outside.
struct WindowAxis {
  int64_t kernel = 1, stride = 1, dilation = 1;
  Dim size = 1, out = 1;
  int64_t before = 0, after = 0;  // an explicit PAD by these makes VALID give `out` windows
  int64_t declared_after = 0;     // ONNX's own pad at the end: what count_include_pad counts
  bool known = true;              // false: SAME of a size that is not known; before and after mean nothing
  bool fits_valid = true, fits_same = true;

  int64_t extent() const { return (kernel - 1) * dilation + 1; }
};

// Reads kernel_shape, strides, dilations, pads, auto_pad (and ceil_mode for a pool) for axes of these sizes. `weights`:
// the kernel's extents where an operator has weights, else kernel_shape must be there. Symbolic sizes are kept where
// possible.
std::vector<WindowAxis> read_window(Lowering& lo, std::span<const Dim> sizes,
                                    std::optional<std::vector<int64_t>> weights, bool ceil_mode = false);

// TFLite's padding for these axes of x, of which the first is `first_axis`; x is padded with `value` when it is
// neither.
Padding settle_padding(Lowering& lo, Val& x, std::span<const WindowAxis> axes, size_t first_axis, double value);

// ONNX's [N, C, spatial...] as TFLite wants it: NHWC, NDHWC; 1-D becomes an image of height 1.
Val channels_last(Lowering& lo, Val x);
// The way back, to `spatial` axes.
Val channels_first(Lowering& lo, Val y, int spatial);
// [N, spatial..., C], as ONNX Runtime's operators on channels in the end have it, in ONNX's order, and back.
Val channels_second(Lowering& lo, Val x);
Val channels_in_the_end(Lowering& lo, Val y);
// The axes as TFLite has them: 1-D gets a height of 1.
std::vector<WindowAxis> as_image(std::vector<WindowAxis> axes);

// Sizes that TFLite holds in 32 bits.
int to_int(Lowering& lo, int64_t value, const char* what);

}  // namespace lowtide::layout
