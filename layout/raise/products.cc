// SPDX-License-Identifier: Apache-2.0
// FULLY_CONNECTED and BATCH_MATMUL.
//
// The traps: FULLY_CONNECTED flattens its data in TFLite's axis order, and keep_num_dims decides the shape of the
// result alone. A product is a Gemm on two axes: it takes the weights as TFLite stores them, so that they are copied
// and not transposed, and it is the only form for which ONNX Runtime has an integer kernel with a bias. Its Reshapes
// stand outside of QuantizeLinear and DequantizeLinear. BATCH_MATMUL takes scale i for column i of the result, whatever
// axis the file names.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "layout/raise/families.h"
#include "layout/raise/raising.h"

namespace lowtide::layout {
namespace {

// The data as [rows, columns].
std::string flattened(Raising& r, const Shape& shape, int64_t columns) {
  const core::Value& x = r.in(0);
  if (x.rank() == 2 && x.shape[1] == columns) return r.real(0);
  const Shape wanted = {stream::is_static(shape) ? static_cast<core::Dim>(stream::element_count(shape)) / columns : -1,
                        columns};
  std::string flat = r.reshaped(r.stored(0), wanted);
  if (!x.quantization) return real_type(x) == x.dtype ? flat : r.cast(flat, real_type(x));
  return r.onnx.dequantized(flat, *x.quantization, x.dtype, false);
}

int unknown_dims(const Shape& shape) {
  return static_cast<int>(
      std::count_if(shape.begin(), shape.end(), [](core::Dim dim) { return core::is_symbol(dim); }));
}

// A product of floats that keeps its axes, of which two or more are unknown, so that a Reshape would need a computed
// shape: a MatMul.
bool is_open_product(Raising& r, int64_t columns, int64_t units) {
  const core::Value &x = r.in(0), &weights = r.in(1), &result = r.out();
  return x.rank() > 2 && x.shape.back() == columns && result.rank() == x.rank() && result.shape.back() == units &&
         unknown_dims(result.shape) > 1 && weights.is_constant() && !x.quantization && !weights.quantization &&
         !result.quantization && weights.dtype == x.dtype && real_type(x) == x.dtype;
}

void raise_open_product(Raising& r, core::Activation activation) {
  const core::Value& weights = r.in(1);
  const std::string matrix = r.onnx.initializer(stream::recipe::permute(weights.constant, {1, 0}), weights.name);
  std::string product = r.node("MatMul", {r.real(0), matrix});
  if (r.has(2)) product = r.node("Add", {product, r.real(2)});
  r.give_activated(product, activation);
}

// LiteRT refuses them.
void refuse_narrow_weights_with_zero_point(const Raising& r) {
  constexpr int kByte = 8;
  const core::Value& weights = r.in(1);
  if (!weights.quantization || stream::bits(weights.dtype) >= kByte) return;
  const std::vector<int64_t>& zeros = weights.quantization->zero_point;
  if (std::any_of(zeros.begin(), zeros.end(), [](int64_t zero) { return zero != 0; }))
    r.unsupported(
        fmt::format("weights of {} bits with a zero point, which LiteRT refuses", stream::bits(weights.dtype)));
}

void raise_fully_connected(Raising& r) {
  need_scales_by_output(r, 1, 0);
  refuse_narrow_weights_with_zero_point(r);
  const auto& o = r.options<core::FullyConnectedOptions>();
  const core::Value& x = r.in(0);
  // Of two axes, the result needs no Reshape, so the number of rows may be open.
  const bool is_matrix = x.rank() == 2 && r.out().rank() == 2;
  const core::Dim rows = r.in(1).shape[0];
  const int64_t units = is_matrix ? rows : r.need_static(rows, "the shape of the weights is");
  const int64_t columns = r.need_static(r.in(1).shape[1], "the shape of the weights is");
  if (columns < 1) r.unsupported("weights without columns");
  if (x.quantization && x.quantization->scale.size() != 1) r.unsupported("data with a scale for each index of an axis");
  if (is_open_product(r, columns, units)) return raise_open_product(r, o.activation);
  Names inputs = {flattened(r, x.shape, columns), raised_weights(r, 1, x.dtype)};
  if (r.has(2)) inputs.push_back(raised_bias(r, 0, 1, 2));
  const std::string product = r.node("Gemm", std::move(inputs), {attribute("transB", int64_t{1})});
  // As [.., units]: of the integers, so that nothing stands in the group.
  r.give_activated_as(product, o.activation, units);
}

// With the last two axes exchanged.
std::string adjoint(Raising& r, size_t i, bool exchanged) {
  const DType other = r.in(1 - i).dtype;
  if (!exchanged) return raised_weights(r, i, other);
  const core::Value& value = r.in(i);
  const int last = value.rank() - 1;
  core::Perm order(value.shape.size());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  if (value.is_constant() && !value.quantization && real_type(value) == value.dtype)
    return r.onnx.initializer(stream::recipe::permute(value.constant, order), value.name);
  const auto moved = [&](const std::string& name) {
    return r.node("Transpose", {name}, {attribute("perm", std::vector<int64_t>(order.begin(), order.end()))});
  };
  if (!value.quantization) return moved(r.real(i));
  StoredNumbers numbers = stored_weights(r, i, other);
  int& axis = numbers.quantization.axis;
  if (axis >= last - 1) axis = 2 * last - 1 - axis;
  return r.onnx.dequantized(moved(numbers.name), numbers.quantization, numbers.dtype, false);
}

// Weights beside floats may have a scale for each column of the result.
void refuse_other_scales(Raising& r) {
  for (size_t i = 0; i < 2; ++i) {
    const auto& scales = r.in(i).quantization;
    if (!scales || scales->scale.size() <= 1) continue;
    if (i == 0 || !stream::is_float(r.in(0).dtype))
      r.unsupported("integers with a scale for each index of an axis, of which LiteRT's kernel takes the first");
  }
  need_scales_by_output(r, 1, r.in(1).rank() - (r.options<core::BatchMatmulOptions>().adj_y ? 2 : 1));
}

void raise_batch_matmul(Raising& r) {
  const auto& o = r.options<core::BatchMatmulOptions>();
  refuse_other_scales(r);
  r.give(r.node("MatMul", {adjoint(r, 0, o.adj_x), adjoint(r, 1, o.adj_y)}));
}

constexpr RaiseRow kProducts[] = {
    {Kind::kFullyConnected, 2, 3, raise_fully_connected, Takes::kReals},
    {Kind::kBatchMatmul, 2, 2, raise_batch_matmul, Takes::kNumbers},
};

}  // namespace

std::span<const RaiseRow> raised_products() { return kProducts; }

}  // namespace lowtide::layout
