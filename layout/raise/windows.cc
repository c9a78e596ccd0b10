// SPDX-License-Identifier: Apache-2.0
#include "layout/raise/windows.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "layout/raise/known_at_run_time.h"

namespace lowtide::layout {

int64_t ceil_of(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t missing(int64_t windows, const WindowSize& axis, int64_t elements) {
  return std::max<int64_t>(0, (windows - 1) * axis.stride + (axis.filter - 1) * axis.dilation + 1 - elements);
}

namespace {

// Whether elements may be left after the last window, so that the pads would be negative.
bool may_end_before_image(const WindowSize& axis) {
  if (!stream::is_static(axis.image)) return axis.filter < axis.stride;
  return (ceil_of(axis.image, axis.stride) - 1) * axis.stride + axis.filter < axis.image;
}

}  // namespace

WindowAttributes window_attributes(std::span<const WindowSize> axes, core::Padding padding, WindowOf of,
                                   const core::Model& model, const std::vector<int64_t>* joined) {
  std::vector<int64_t> kernel, strides, dilations, before, after;
  const bool is_same = padding == core::Padding::kSame;
  bool has_known_pads = true;
  for (const WindowSize& axis : axes) {
    kernel.push_back(axis.filter);
    strides.push_back(axis.stride);
    dilations.push_back(axis.dilation);
    // With a window at each place, or of one element, the pads do not depend on the size.
    const bool has_same_pads = axis.stride == 1 || axis.filter == 1;
    const int64_t size = core::is_symbol(axis.image) && has_same_pads ? 1 : axis.image;
    has_known_pads = has_known_pads && stream::is_static(size);
    if (!is_same || !has_known_pads) continue;
    const int64_t total = missing(ceil_of(size, axis.stride), axis, size);
    before.push_back(total / 2);
    after.push_back(total - total / 2);
  }
  WindowAttributes out;
  out.attributes = {attribute("kernel_shape", kernel), attribute("strides", strides)};
  if (of == WindowOf::kConvolution) out.attributes.push_back(attribute("dilations", dilations));
  if (joined) out.attributes.push_back(attribute("pads", *joined));
  if (!is_same) return out;
  if (!has_known_pads) {
    if (std::any_of(dilations.begin(), dilations.end(), [](int64_t one) { return one > 1; }))
      throw stream::Unsupported(
          "SAME with strides and dilations, and a size known at run time only, for which ONNX Runtime has no kernel");
    if (of == WindowOf::kPool && std::any_of(axes.begin(), axes.end(), may_end_before_image))
      throw known_at_run_time(
          "a pool with SAME and a filter smaller than its stride, where ONNX Runtime makes negative pads of a size",
          model);
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
