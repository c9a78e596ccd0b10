// SPDX-License-Identifier: Apache-2.0
// Activations of their own. Those that are fused into an op: Raising::give_activated.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "layout/raise/families.h"
#include "layout/raise/raising.h"

namespace lowtide::layout {
namespace {

constexpr int64_t kOpsetOfGelu = 20;

void raise_relu(Raising& r) { r.give_activated(r.real(0), Activation::kRelu); }
void raise_relu6(Raising& r) { r.give_activated(r.real(0), Activation::kRelu6); }
void raise_relu_n1_to_1(Raising& r) { r.give_activated(r.real(0), Activation::kReluN1To1); }

std::string clip(Raising& r, double low, double high) {
  const DType dtype = real_type(r.in(0));
  return r.node("Clip", {r.real(0), r.scalar(low, dtype), r.scalar(high, dtype)});
}
void raise_relu_0_to_1(Raising& r) { r.give(clip(r, 0, 1)); }

void raise_tanh(Raising& r) { r.give(r.node("Tanh", {r.real(0)})); }
void raise_logistic(Raising& r) { r.give(r.node("Sigmoid", {r.real(0)})); }
void raise_elu(Raising& r) { r.give(r.node("Elu", {r.real(0)})); }
void raise_hard_swish(Raising& r) { r.give(r.node("HardSwish", {r.real(0)})); }

void raise_leaky_relu(Raising& r) {
  r.give(r.node("LeakyRelu", {r.real(0)}, {attribute("alpha", r.options<core::LeakyReluOptions>().alpha)}));
}

// ONNX's slope broadcasts to the data only, as TFLite's does in every model that LiteRT runs.
void raise_prelu(Raising& r) {
  if (r.in(1).rank() > r.in(0).rank() || r.in(0).shape != r.out().shape)
    r.unsupported("the slope is larger than the data");
  // The kernel for u8 has a slope of u8, and those for i8 and i16 one of i8.
  const DType data = r.in(0).dtype, slope = r.in(1).dtype, wanted = data == DType::kInt16 ? DType::kInt8 : data;
  if (r.in(0).quantization ? slope != wanted : r.in(1).quantization.has_value())
    r.unsupported(fmt::format("a slope of {} for data of {}, which LiteRT's kernel reads as {}", dtype_name(slope),
                              dtype_name(data), dtype_name(wanted)));
  r.give(r.node("PRelu", {r.real(0), r.real(1)}));
}

void raise_gelu(Raising& r) {
  const bool approximate = r.options<core::GeluOptions>().approximate;
  const std::string x = r.real(0);
  if (r.onnx.opset >= kOpsetOfGelu)
    return r.give(r.node("Gelu", {x}, {attribute("approximate", std::string_view(approximate ? "tanh" : "none"))}));
  const DType dtype = real_type(r.in(0));
  auto number = [&](double value) { return r.scalar(value, dtype); };
  std::string inner;
  if (approximate) {
    const std::string cube = r.node("Mul", {x, r.node("Mul", {x, x})});
    const std::string sum = r.node("Add", {x, r.node("Mul", {cube, number(0.044715)})});
    inner = r.node("Tanh", {r.node("Mul", {sum, number(std::sqrt(2 / std::numbers::pi))})});
  } else {
    inner = r.node("Erf", {r.node("Mul", {x, number(1 / std::numbers::sqrt2)})});
  }
  r.give(r.node("Mul", {r.node("Mul", {x, number(0.5)}), r.node("Add", {inner, number(1)})}));
}

constexpr RaiseRow kRaisedActivations[] = {
    {Kind::kRelu, 1, 1, raise_relu, Takes::kNumbers},
    {Kind::kRelu6, 1, 1, raise_relu6, Takes::kNumbers},
    {Kind::kReluN1To1, 1, 1, raise_relu_n1_to_1, Takes::kNumbers},
    {Kind::kRelu0To1, 1, 1, raise_relu_0_to_1, Takes::kNumbers},
    {Kind::kTanh, 1, 1, raise_tanh, Takes::kReals},
    {Kind::kLogistic, 1, 1, raise_logistic, Takes::kReals},
    {Kind::kElu, 1, 1, raise_elu, Takes::kReals},
    {Kind::kHardSwish, 1, 1, raise_hard_swish, Takes::kReals},
    {Kind::kLeakyRelu, 1, 1, raise_leaky_relu, Takes::kReals},
    {Kind::kPrelu, 2, 2, raise_prelu, Takes::kReals},
    {Kind::kGelu, 1, 1, raise_gelu, Takes::kReals},
};

}  // namespace

std::span<const RaiseRow> raised_activations() { return kRaisedActivations; }

}  // namespace lowtide::layout
