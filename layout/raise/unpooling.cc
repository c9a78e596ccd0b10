// SPDX-License-Identifier: Apache-2.0
// MaxPoolingWithArgmax2D and MaxUnpooling2D. Source of the semantics: MediaPipe's util/tflite/operations
// (max_pool_argmax.cc, max_unpooling.cc).
//
// The trap: their places count inside of a window, ONNX's inside of the whole tensor.
#include "layout/raise/unpooling.h"

#include <fmt/format.h>

#include <array>

#include "layout/raise/families.h"
#include "layout/raise/raising.h"
#include "layout/raise/windows.h"

namespace lowtide::layout {
namespace {

namespace recipe = stream::recipe;

const core::PoolOptions& window_of(const Raising& r) {
  return static_cast<const PlacedPool&>(*r.options<core::CustomOptions>().described).window;
}

std::string int64_number(Raising& r, int64_t value) { return r.scalar(static_cast<double>(value), DType::kInt64); }

// begin, begin + step, ... along one axis.
std::string steps(Raising& r, int64_t begin, int64_t step, int64_t count, const Shape& shape) {
  constexpr int64_t kMostSteps = 1 << 20;
  if (count > kMostSteps) r.unsupported(fmt::format("{} places along an axis, more than {}", count, kMostSteps));
  return r.onnx.initializer(recipe::reshape(recipe::iota(begin, step, DType::kInt64, count), shape), "steps");
}

}  // namespace

void raise_pool_with_places(Raising& r) {
  const core::PoolOptions& o = window_of(r);
  const Shape &image = r.in(0).shape, &made = r.out().shape;
  const WindowSize axes[] = {{image[2], o.filter_h, o.stride_h, 1}, {image[3], o.filter_w, o.stride_w, 1}};
  std::array<int64_t, 2> before{};
  for (size_t i = 0; i < 2; ++i)
    if (o.padding == core::Padding::kSame) before[i] = missing(made[i + 2], axes[i], image[i + 2]) / 2;
  const Names pooled = r.onnx.nodes("MaxPool", {r.real(0)}, 2,
                                    window_attributes(axes, o.padding, WindowOf::kPool, r.onnx.model.from).attributes);
  r.give_activated(pooled[0], o.activation);
  const std::string width = int64_number(r, image[3]);
  const std::string x = r.node("Mod", {pooled[1], width});
  const std::string y = r.node("Mod", {r.node("Div", {pooled[1], width}), int64_number(r, image[2])});
  const std::string in_row = r.node("Sub", {x, steps(r, -before[1], o.stride_w, made[3], {1, 1, 1, made[3]})});
  const std::string row = r.node("Sub", {y, steps(r, -before[0], o.stride_h, made[2], {1, 1, made[2], 1})});
  const std::string place = r.node("Add", {r.node("Mul", {row, int64_number(r, o.filter_w)}), in_row});
  constexpr float kTenth = 0.1F;
  r.give(r.node("Add",
                {r.cast(place, DType::kFloat32), r.onnx.initializer(recipe::floats(std::array{kTenth}, {}), "tenth")}),
         1);
}

void raise_unpooling(Raising& r) {
  const core::PoolOptions& o = window_of(r);
  const Shape &image = r.in(0).shape, &made = r.out().shape;
  const std::string place = r.cast(r.real(1), DType::kInt64), filter = int64_number(r, o.filter_w);
  const std::string x =
      r.node("Add", {r.node("Mod", {place, filter}), steps(r, 0, o.filter_w, image[3], {1, 1, 1, image[3]})});
  const std::string y =
      r.node("Add", {r.node("Div", {place, filter}), steps(r, 0, o.filter_h, image[2], {1, 1, image[2], 1})});
  const std::string in_image = r.node("Add", {r.node("Mul", {y, int64_number(r, made[3])}), x});
  const std::string images = steps(r, 0, made[2] * made[3], made[0] * made[1], {made[0], made[1], 1, 1});
  r.give(r.node("MaxUnpool", {r.real(0), r.node("Add", {in_image, images})},
                {attribute("kernel_shape", {o.filter_h, o.filter_w}), attribute("strides", {o.stride_h, o.stride_w})}));
}

}  // namespace lowtide::layout
