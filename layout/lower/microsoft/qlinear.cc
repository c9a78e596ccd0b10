// SPDX-License-Identifier: Apache-2.0
// com.microsoft's QLinearAdd, QLinearMul, QLinearSigmoid, QLinearLeakyRelu, QLinearAveragePool,
// QLinearGlobalAveragePool, QLinearSoftmax, QLinearWhere and QLinearConcat: operators on integers with scales and zero
// points as inputs, which ONNX Runtime's quantizer writes. Each becomes a float operator between a dequantization and a
// quantization, by the formulas of ONNX Runtime's schemas. Some of its kernels use tables and fixed-point arithmetic: a
// result that is near a tie may differ by one.
#include <fmt/format.h>

#include <array>
#include <numeric>

#include "layout/lower/pool.h"
#include "layout/lower/quantize_linear.h"
#include "layout/lower/sliding_window.h"
#include "layout/lower/softmax.h"

namespace lowtide::layout {
namespace {

// Input `at` minus its zero point, which follows its scale and may be absent.
Val centred(Lowering& lo, size_t at) {
  const Val x = lo.input(at);
  const Val levels = as_floats(lo.b, x);
  return lo.has_input(at + 2) ? lo.b.sub(levels, as_floats(lo.b, one_parameter(lo, lo.input(at + 2)))) : levels;
}

Val scale(Lowering& lo, size_t at) { return one_parameter(lo, lo.input(at)); }

// The grid of a tensor whose scale is input `scale_at`, its zero point behind it.
std::optional<core::Quantization> grid_at(Lowering& lo, size_t scale_at, DType dtype) {
  return constant_grid(lo, lo.input(scale_at), lo.optional_input(scale_at + 1), dtype);
}

Val real(Lowering& lo, size_t at) {
  if (const auto grid = grid_at(lo, at + 1, lo.dtype(lo.input(at)))) return real_of(lo, lo.input(at), *grid);
  const Val factor = scale(lo, at + 1);
  return lo.b.mul(centred(lo, at), factor);
}

DType output_type(Lowering& lo, size_t zero_at) {
  return lo.dtype(lo.has_input(zero_at) ? lo.input(zero_at) : lo.input(0));
}

// Whether the tensors at these inputs, and the result whose scale is input `scale_at`, are on constant grids: then the
// operator is a float operator between real() and output_real(), which an integer kernel may replace.
bool are_on_grids(Lowering& lo, std::initializer_list<size_t> tensors, size_t scale_at) {
  bool all = grid_at(lo, scale_at, output_type(lo, scale_at + 1)).has_value();
  for (const size_t at : tensors) all = all && grid_at(lo, at + 1, lo.dtype(lo.input(at)));
  return all;
}

// Sets the output from `levels` in units of the scale, which is the input before `zero_at`. Without a zero point its
// type is that of the first input.
void output_levels(Lowering& lo, Val levels, size_t zero_at) {
  const Val zero = lo.has_input(zero_at) ? one_parameter(lo, lo.input(zero_at)) : Val{};
  lo.output(0, as_levels(lo.b, levels, zero, lo.dtype(zero ? zero : lo.input(0))));
}

// The same from real numbers.
void output_real(Lowering& lo, Val y, size_t scale_at) {
  const DType to = output_type(lo, scale_at + 1);
  if (const auto grid = grid_at(lo, scale_at, to)) return lo.output(0, on_grid(lo, y, *grid, to));
  output_levels(lo, lo.b.div(y, scale(lo, scale_at)), scale_at + 1);
}

// The same for kernels that round after adding the zero point, which changes how ties are rounded.
void output_rounded_last(Lowering& lo, Val levels, size_t zero_at) {
  if (lo.has_input(zero_at)) levels = lo.b.add(levels, as_floats(lo.b, one_parameter(lo, lo.input(zero_at))));
  lo.output(0, as_levels(lo.b, levels, {}, lo.dtype(lo.input(0))));
}

}  // namespace

void lower_qlinear_add(Lowering& lo) {
  Builder& b = lo.b;
  if (are_on_grids(lo, {0, 3}, 6)) {
    const Val other = real(lo, 3);
    return output_real(lo, b.add(real(lo, 0), other), 6);
  }
  auto levels = [&](size_t at) {
    const Val of_y = scale(lo, 6);
    const Val factor = b.div(scale(lo, at + 1), of_y);
    return b.mul(centred(lo, at), factor);
  };
  const Val other = levels(3);
  output_rounded_last(lo, b.add(levels(0), other), 7);
}

void lower_qlinear_mul(Lowering& lo) {
  if (are_on_grids(lo, {0, 3}, 6)) {
    const Val other = real(lo, 3);
    return output_real(lo, lo.b.mul(real(lo, 0), other), 6);
  }
  const Val of_y = scale(lo, 6), of_other = scale(lo, 4);
  const Val factor = lo.b.div(lo.b.mul(scale(lo, 1), of_other), of_y);
  const Val other = centred(lo, 3);
  output_rounded_last(lo, lo.b.mul(lo.b.mul(centred(lo, 0), other), factor), 7);
}

void lower_qlinear_sigmoid(Lowering& lo) { output_real(lo, lo.b.logistic(real(lo, 0)), 3); }

void lower_qlinear_leaky_relu(Lowering& lo) {
  output_real(lo, lo.b.leaky_relu(real(lo, 0), lo.attr_f("alpha", 0.01f)), 3);
}

void lower_qlinear_global_average_pool(Lowering& lo) {
  Builder& b = lo.b;
  const Val x = lo.input(0);
  const int rank = lo.rank(x);
  if (rank < 3) lo.malformed(fmt::format("the input must have rank 3 or more; it has rank {}", rank));
  const int first = lo.attr_i("channels_last", 0) != 0 ? 1 : 2;
  std::vector<int> axes(static_cast<size_t>(rank - 2));
  std::iota(axes.begin(), axes.end(), first);
  if (are_on_grids(lo, {0}, 3)) return output_real(lo, b.mean(real(lo, 0), axes, true), 3);
  std::vector<Dim> pooled;
  for (const int axis : axes) pooled.push_back(b.dim(x, axis));
  const Val count = b.reduce_prod(b.cast(b.dims(pooled), DType::kFloat32), std::array{0}, false);
  const Val divisor = b.mul(scale(lo, 3), count);
  const Val factor = b.div(scale(lo, 1), divisor);
  output_levels(lo, b.mul(b.sum(centred(lo, 0), axes, true), factor), 4);
}

void lower_qlinear_average_pool(Lowering& lo) {
  Builder& b = lo.b;
  const bool last = lo.attr_i("channels_last", 0) != 0;
  if (lo.attr_i("ceil_mode", 0) != 0 && lo.attr_i("count_include_pad", 0) != 0)
    lo.unsupported(
        "ceil_mode together with count_include_pad is not supported: ONNX Runtime's divisor differs from that of "
        "AveragePool");
  const bool on_grids = are_on_grids(lo, {0}, 3);
  const Val x = on_grids ? real(lo, 0) : centred(lo, 0);
  const Val y = average_pool(lo, last ? channels_first(lo, x) : x);
  if (on_grids) return output_real(lo, last ? channels_last(lo, y) : y, 3);
  const Val of_y = scale(lo, 3);
  const Val factor = b.div(scale(lo, 1), of_y);
  output_rounded_last(lo, b.mul(last ? channels_last(lo, y) : y, factor), 4);
}

// `opset` is that of the Softmax, but the last axis is the default of any. ONNX Runtime's kernel represents 1 by a
// whole number of levels, rounded down: 254 for the scale 1 / 255, because the quotient in floats is slightly less than
// 255.
void lower_qlinear_softmax(Lowering& lo) {
  Builder& b = lo.b;
  const Val y = softmax_of(lo, real(lo, 0), lo.need_attr_i("opset"), -1);
  const auto grid = grid_at(lo, 3, output_type(lo, 4));
  if (grid && grid->scale[0] == 1.0f / 256) return output_real(lo, y, 3);  // a whole number of levels
  const Val one = scale(lo, 3);
  output_levels(lo, b.mul(y, b.floor(b.div(b.scalar_like(1, one), one))), 4);
}

void lower_qlinear_where(Lowering& lo) {
  const Val otherwise = real(lo, 4);
  output_real(lo, lo.b.select(lo.input(0), real(lo, 1), otherwise), 7);
}

// The result's scale and zero point, then each tensor with its own.
void lower_qlinear_concat(Lowering& lo) {
  if (lo.input_count() % 3 != 2)
    lo.malformed("every tensor must have a scale and a zero point; there are " + std::to_string(lo.input_count()) +
                 " inputs");
  std::vector<Val> parts;
  for (size_t at = 2; at < lo.input_count(); at += 3) {
    const DType dtype = lo.dtype(lo.input(at));
    if (dtype != DType::kInt8 && dtype != DType::kUint8)
      lo.unsupported(
          fmt::format("a tensor of {} is not supported: it must be int8 or uint8", stream::dtype_name(dtype)));
    if (lo.has_input(at + 2) && lo.dtype(lo.input(at + 2)) != dtype)
      lo.malformed(fmt::format("inputs {} and {}, a zero point, must have the same type", at, at + 2));
    parts.push_back(real(lo, at));
  }
  const int axis = lo.axis(lo.need_attr_i("axis"), lo.rank(parts[0]));
  if (const auto grid = constant_grid(lo, lo.input(0), lo.input(1), lo.dtype(lo.input(1))))
    return lo.output(0, on_grid(lo, lo.b.concat(parts, axis), *grid, lo.dtype(lo.input(1))));
  const Val of_y = scale(lo, 0);
  const Val levels = lo.b.div(lo.b.concat(parts, axis), of_y);
  lo.output(0, as_levels(lo.b, levels, one_parameter(lo, lo.input(1)), lo.dtype(lo.input(1))));
}

}  // namespace lowtide::layout
