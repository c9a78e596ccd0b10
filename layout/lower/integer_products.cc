// SPDX-License-Identifier: Apache-2.0
// MatMulInteger, ConvInteger, QLinearMatMul, QLinearConv, and com.microsoft's DynamicQuantizeMatMul,
// MatMulIntegerToFloat and QGemm: products of 8-bit integers with scales and zero points as inputs. TFLite's quantized
// kernels take scales as properties of tensors, and round differently. Here the products are computed in floats, which
// is exact as long as no sum exceeds 2^24. For longer sums the right operand is split into digits of a smaller base,
// each digit is multiplied separately, and the results are added as i32.
//
//     q = 16 * high + low        sum x * q = 16 * (sum x * high) + (sum x * low)
//
// Short sums are cast to i32 too before they are scaled: otherwise the scale would be folded into the weights, and the
// sums would not be exact. Sources: ONNX's operators; ONNX Runtime multiplies the sum by one factor in f32, and rounds
// (half to even) before it adds the zero point.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "layout/lower/conv.h"
#include "layout/lower/matmul.h"
#include "layout/lower/quantize_linear.h"
#include "layout/lower/sliding_window.h"

namespace lowtide::layout {
namespace {

// Integers stored as floats, in -most..most.
struct IntegerOperand {
  Val numbers;
  double most = 0;
};

// A scalar stays; a list becomes [n, 1, ..] so that it broadcasts along `axis` of a tensor of `rank`.
Val broadcast_along(Lowering& lo, Val list, int axis, int rank) {
  if (lo.rank(list) == 0) return list;
  if (lo.rank(list) > 1) return list;  // the model gives a shape that broadcasts
  const Dim count = lo.b.dim(list, 0);
  if (count == 1) return lo.b.reshape(list, std::initializer_list<Dim>{});
  Shape shape(static_cast<size_t>(rank - axis), 1);
  shape[0] = count;
  return lo.b.reshape(list, shape);
}

struct Range {
  double least, most;
};

Range range(Lowering& lo, Val x) {
  if (lo.dtype(x) == DType::kInt8) return {-128, 127};
  if (lo.dtype(x) == DType::kUint8) return {0, 255};
  lo.unsupported(fmt::format("an integer product of {} is not supported: it needs int8 or uint8",
                             stream::dtype_name(lo.dtype(x))));
}

// x minus its zero point. `axis`: the axis of x that a list of zero points belongs to.
IntegerOperand integer_operand(Lowering& lo, Val x, Val zero, int axis) {
  const Range all = range(lo, x);
  const Val numbers = as_floats(lo, x);
  if (!zero) return {numbers, std::max(-all.least, all.most)};
  if (lo.dtype(zero) != lo.dtype(x)) lo.malformed("an operand and its zero point must have the same type");
  Range zeros = all;
  if (auto known = lo.numbers(zero); known && !known->empty()) {
    const auto [least, most] = std::minmax_element(known->begin(), known->end());
    zeros = {*least, *most};
  }
  const double most = std::max(all.most - zeros.least, zeros.most - all.least);
  if (zeros.least == 0 && zeros.most == 0) return {numbers, most};
  return {lo.b.sub(numbers, broadcast_along(lo, as_floats(lo, zero), axis, lo.rank(x))), most};
}

// The result of `product`, a float function that sums `terms` products a * b for each element, computed exactly as i32.
template <typename Product>
Val exact_sums(Lowering& lo, const IntegerOperand& a, const IntegerOperand& b, uint64_t terms, Product product) {
  constexpr double kExact = 1 << 24;
  const double room = kExact / std::max(1.0, static_cast<double>(terms) * a.most);
  if (room < 1)
    lo.unsupported(fmt::format("a sum of {} integer products is not exact in float32", terms),
                   "dequantize the operands and multiply floats");
  const double base = std::exp2(std::floor(std::log2(room + 1)));
  std::vector<Val> digits;  // the lowest first
  Val rest = b.numbers;
  for (double most = b.most; most > room; most = std::ceil(most / base)) {
    const Val higher = lo.b.floor(lo.b.mul(rest, 1 / base));
    digits.push_back(lo.b.sub(rest, lo.b.mul(higher, base)));
    rest = higher;
  }
  Val sum = lo.b.cast(product(a.numbers, rest), DType::kInt32);
  for (; !digits.empty(); digits.pop_back()) {
    const Val lower = lo.b.cast(product(a.numbers, digits.back()), DType::kInt32);
    sum = lo.b.add(lo.b.mul(sum, base), lower);
  }
  return sum;
}

Val vector_as_matrix(Lowering& lo, Val x, bool row) {
  if (lo.rank(x) != 1) return x;
  return lo.b.reshape(x, row ? Shape{1, lo.b.dim(x, 0)} : Shape{lo.b.dim(x, 0), 1});
}

// numpy's matmul of two tensors less their zero points, as i32.
Val integer_matmul(Lowering& lo, Val a, Val a_zero, Val b, Val b_zero) {
  if (lo.rank(a) < 1 || lo.rank(b) < 1) lo.malformed("operands must have rank 1 or more");
  IntegerOperand left = integer_operand(lo, a, a_zero, std::max(0, lo.rank(a) - 2)),
                 right = integer_operand(lo, b, b_zero, lo.rank(b) - 1);
  left.numbers = vector_as_matrix(lo, left.numbers, true);
  right.numbers = vector_as_matrix(lo, right.numbers, false);
  const int64_t terms = lo.need_static(lo.b.dim(left.numbers, -1), "the inner dimension");
  const Val y =
      exact_sums(lo, left, right, static_cast<uint64_t>(terms), [&](Val x, Val w) { return matrix_product(lo, x, w); });
  std::vector<int> added;  // axes that were inserted for vectors
  if (lo.rank(a) == 1) added.push_back(lo.rank(y) - 2);
  if (lo.rank(b) == 1) added.push_back(lo.rank(y) - 1);
  return added.empty() ? y : lo.b.squeeze(y, added);
}

Val integer_convolution(Lowering& lo, Val x, Val x_zero, Val weights, Val weights_zero) {
  const std::vector<int64_t> shape = lo.need_static(lo.shape(weights), "the shape of the weights");
  if (shape.size() < 3)
    lo.malformed(fmt::format("the weights must have rank 3 or more; they have rank {}", shape.size()));
  uint64_t terms = 1;
  for (size_t i = 1; i < shape.size(); ++i) terms = stream::checked_mul(terms, static_cast<uint64_t>(shape[i]));
  // The border is padded with the zero point: that is 0 after the subtraction.
  return exact_sums(lo, integer_operand(lo, x, x_zero, 0), integer_operand(lo, weights, weights_zero, 0), terms,
                    [&](Val part, Val w) { return convolution(lo, part, w, {}); });
}

// Sums times a factor, as integers of the zero point's type. `axis`: as in integer_operand().
Val requantized(Lowering& lo, Val sum, Val factor, Val zero, int axis) {
  const Val levels = lo.b.mul(lo.b.cast(sum, DType::kFloat32), factor);
  return as_levels(lo, levels, broadcast_along(lo, zero, axis, lo.rank(sum)), lo.dtype(zero));
}

// Inputs: x, its scale and zero point; weights, theirs; the result's scale and zero point; an i32 bias in units of both
// scales.
void qlinear_conv(Lowering& lo, bool is_channels_last) {
  Builder& b = lo.b;
  const int rank = lo.rank(lo.input(0));
  const Val x = is_channels_last ? channels_first(lo, lo.input(0)) : lo.input(0);
  Val sum = integer_convolution(lo, x, lo.input(2), lo.input(3), lo.input(5));
  if (lo.has_input(8)) sum = b.add(sum, broadcast_along(lo, lo.input(8), 1, rank));
  auto scale = [&](size_t i) { return broadcast_along(lo, b.cast(lo.input(i), DType::kFloat32), 1, rank); };
  const Val of_y = scale(6), of_weights = scale(4);
  const Val y = requantized(lo, sum, b.div(b.mul(scale(1), of_weights), of_y), lo.input(7), 1);
  lo.output(0, is_channels_last ? channels_last(lo, y) : y);
}

}  // namespace

Val real_product(Lowering& lo, const Levels& left, const Levels& right) {
  Builder& b = lo.b;
  const Val sum = integer_matmul(lo, left.q, left.zero, right.q, right.zero);
  if (lo.dtype(left.scale) != DType::kFloat32)
    lo.unsupported(fmt::format("scales of {} are not supported", stream::dtype_name(lo.dtype(left.scale))),
                   "use float32 scales");
  const int rank = lo.rank(left.q);
  const Val of_columns = broadcast_along(lo, right.scale, 0, 1);
  const Val scale = b.mul(broadcast_along(lo, left.scale, std::max(0, rank - 2), rank), of_columns);
  return b.mul(b.cast(sum, DType::kFloat32), scale);
}

void lower_matmul_integer(Lowering& lo) {
  lo.output(0, integer_matmul(lo, lo.input(0), lo.optional_input(2), lo.input(1), lo.optional_input(3)));
}

void lower_conv_integer(Lowering& lo) {
  lo.output(0, integer_convolution(lo, lo.input(0), lo.optional_input(2), lo.input(1), lo.optional_input(3)));
}

// Inputs: a, b, their scales, their zero points, a float bias. Lists are per column of b.
void lower_matmul_integer_to_float(Lowering& lo) {
  const Val y = real_product(lo, {lo.input(0), lo.input(2), lo.optional_input(4)},
                             {lo.input(1), lo.input(3), lo.optional_input(5)});
  lo.output(0, lo.has_input(6) ? lo.b.add(y, lo.input(6)) : y);
}

// Inputs: a float a; b, its scale and zero point; a float bias.
void lower_dynamic_quantize_matmul(Lowering& lo) {
  const Val y =
      real_product(lo, dynamically_quantized(lo, lo.input(0)), {lo.input(1), lo.input(2), lo.optional_input(3)});
  lo.output(0, lo.has_input(4) ? lo.b.add(y, lo.input(4)) : y);
}

// Inputs: a, its scale and zero point; b, its own; an i32 bias in units of both scales; the result's scale and zero
// point. Without the latter the result is float.
void lower_qgemm(Lowering& lo) {
  Builder& b = lo.b;
  Val left = lo.input(0), right = lo.input(3);
  if (lo.rank(left) != 2 || lo.rank(right) != 2)
    lo.malformed(
        fmt::format("the operands must have rank 2; they have ranks {} and {}", lo.rank(left), lo.rank(right)));
  if (lo.attr_i("transA", 0) != 0) left = b.transpose(left, {1, 0});
  if (lo.attr_i("transB", 0) != 0) right = b.transpose(right, {1, 0});
  Val sum = integer_matmul(lo, left, one_parameter(lo, lo.input(2)), right, lo.input(5));
  if (lo.has_input(6)) sum = b.add(sum, lo.input(6));
  const Val of_columns = broadcast_along(lo, lo.input(4), 1, 2);
  Val factor = b.mul(b.mul(one_parameter(lo, lo.input(1)), of_columns), lo.attr_f("alpha", 1));
  if (!lo.has_input(7)) return lo.output(0, b.mul(b.cast(sum, DType::kFloat32), factor));
  factor = b.div(factor, one_parameter(lo, lo.input(7)));
  lo.output(0, requantized(lo, sum, factor, one_parameter(lo, lo.input(8)), 0));
}

// Inputs: a, its scale and zero point; b, its own; the result's. Lists of scales are per row of a and per column of b.
void lower_qlinear_matmul(Lowering& lo) {
  Builder& b = lo.b;
  const Val left = lo.input(0), right = lo.input(3);
  const Val sum = integer_matmul(lo, left, lo.input(2), right, lo.input(5));
  const int row = std::max(0, lo.rank(left) - 2);
  const Val a_scale = broadcast_along(lo, b.cast(lo.input(1), DType::kFloat32), row, lo.rank(left));
  const Val b_scale = broadcast_along(lo, b.cast(lo.input(4), DType::kFloat32), lo.rank(right) - 1, lo.rank(right));
  const Val y_scale = broadcast_along(lo, b.cast(lo.input(6), DType::kFloat32), row, lo.rank(left));
  lo.output(0, requantized(lo, sum, b.div(b.mul(a_scale, b_scale), y_scale), lo.input(7), row));
}

void lower_qlinear_conv(Lowering& lo) { qlinear_conv(lo, false); }

// channels_last applies to x and the result; the weights have ONNX's order.
void lower_ms_qlinear_conv(Lowering& lo) { qlinear_conv(lo, lo.attr_i("channels_last", 0) != 0); }

}  // namespace lowtide::layout
