// SPDX-License-Identifier: Apache-2.0
#include "layout/raise/windows.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace lowtide::layout {

int64_t ceil_of(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t missing(int64_t windows, const WindowSize& axis, int64_t elements) {
  return std::max<int64_t>(0, (windows - 1) * axis.stride + (axis.filter - 1) * axis.dilation + 1 - elements);
}

WindowAttributes window_attributes(std::span<const WindowSize> axes, core::Padding padding, bool dilates) {
  std::vector<int64_t> kernel, strides, dilations, before, after;
  bool is_static = true;
  for (const WindowSize& axis : axes) {
    kernel.push_back(axis.filter);
    strides.push_back(axis.stride);
    dilations.push_back(axis.dilation);
    is_static = is_static && stream::is_static(axis.image);
    if (padding != core::Padding::kSame || !is_static) continue;
    const int64_t total = missing(ceil_of(axis.image, axis.stride), axis, axis.image);
    before.push_back(total / 2);
    after.push_back(total - total / 2);
  }
  WindowAttributes out;
  out.attributes = {attribute("kernel_shape", kernel), attribute("strides", strides)};
  if (dilates) out.attributes.push_back(attribute("dilations", dilations));
  if (padding != core::Padding::kSame) return out;
  if (!is_static) {
    // The same rule, applied when the size is known.
    out.attributes.push_back(attribute("auto_pad", std::string_view("SAME_UPPER")));
    out.has_pads = true;
    return out;
  }
  before.insert(before.end(), after.begin(), after.end());
  out.has_pads = std::any_of(before.begin(), before.end(), [](int64_t pad) { return pad > 0; });
  if (out.has_pads) out.attributes.push_back(attribute("pads", before));
  return out;
}

}  // namespace lowtide::layout
