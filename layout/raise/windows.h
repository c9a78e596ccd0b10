// SPDX-License-Identifier: Apache-2.0
// Windows that slide over an image: what ONNX's Conv, pools and ConvTranspose are told of them.
#pragma once

#include <cstdint>
#include <span>

#include "layout/core/options.h"
#include "layout/raise/raising.h"

namespace lowtide::layout {

// A window along one axis.
struct WindowSize {
  core::Dim image;
  int64_t filter, stride, dilation;
};

int64_t ceil_of(int64_t a, int64_t b);

// Elements that SAME adds on both sides together.
int64_t missing(int64_t windows, const WindowSize& axis, int64_t elements);

struct WindowAttributes {
  Attributes attributes;  // kernel_shape, strides, dilations, and pads or auto_pad
  bool has_pads = false;
};

enum class WindowOf : uint8_t { kConvolution, kPool };  // a pool has no dilations

// SAME of a size that is known at run time only becomes auto_pad, where the pads depend on it. `joined`: the pads of a
// PAD, for VALID (joined_pads.h); null for none.
WindowAttributes window_attributes(std::span<const WindowSize> axes, core::Padding padding, WindowOf of,
                                   const core::Model& model, const std::vector<int64_t>* joined = nullptr);

}  // namespace lowtide::layout
