// SPDX-License-Identifier: Apache-2.0
// RFFT2D as DFT along the width and then, of several rows, along the height. Since opset 20 the axis of DFT is an
// input.
#include "layout/raise/fourier.h"

#include "layout/raise/families.h"
#include "layout/raise/raising.h"

namespace lowtide::layout {
namespace {

constexpr int64_t kOpsetOfAxisAsInput = 20;

std::string transformed(Raising& r, const std::string& x, int64_t axis, bool is_onesided) {
  Names inputs = {x};
  Attributes attributes = {attribute("onesided", int64_t{is_onesided})};
  if (r.onnx.opset >= kOpsetOfAxisAsInput) {
    inputs.emplace_back();
    inputs.push_back(r.scalar(static_cast<double>(axis), DType::kInt64));
  } else {
    attributes.push_back(attribute("axis", axis));
  }
  return r.node("DFT", std::move(inputs), std::move(attributes));
}

}  // namespace

void raise_fourier_transform(Raising& r) {
  const auto& o = static_cast<const FourierTransform&>(*r.options<core::CustomOptions>().described);
  const std::string real = r.node("Unsqueeze", {r.stored(0), r.int64_list({3})});
  const std::string rows = transformed(r, real, 2, true);
  r.give_stored(o.height == 1 ? rows : transformed(r, rows, 1, false));
}

}  // namespace lowtide::layout
