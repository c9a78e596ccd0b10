// SPDX-License-Identifier: Apache-2.0
// MatMulInteger, ConvInteger, QLinearMatMul, QLinearConv, and com.microsoft's DynamicQuantizeMatMul,
// MatMulIntegerToFloat and QGemm: products of 8-bit integers with scales and zero points as inputs. TFLite's quantized
// kernels take scales as properties of tensors, and round differently. Here the products are computed in floats, which
// is exact as long as no sum exceeds 2^24. For longer sums one operand is split into digits of a smaller base, each
// digit is multiplied separately, and the results are added as i32. It is the data that is split, not the weights: they
// would be in the file twice.
//
//     x = 16 * high + low        sum x * q = 16 * (sum high * q) + (sum low * q)
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
#include "layout/lower/shapes_and_indices.h"
#include "layout/lower/sliding_window.h"

namespace lowtide::layout {
namespace {

// Integers stored as floats, in -most..most.
struct IntegerOperand {
  Val numbers;
  double most = 0;
};

constexpr int kNoAxis = -1;  // of the rows or columns of a vector

// A scalar stays; a list becomes [n, 1, ..] so that it broadcasts along `axis` of a tensor of `rank`.
Val broadcast_along(Lowering& lo, Val list, int axis, int rank) {
  if (lo.rank(list) == 0) return list;
  if (lo.rank(list) > 1) return list;  // the model gives a shape that broadcasts
  const Dim count = lo.b.dim(list, 0);
  if (count == 1) return lo.b.reshape(list, std::initializer_list<Dim>{});
  if (axis == kNoAxis)
    lo.malformed(fmt::format("{} scales or zero points for the rows or columns of a vector, which has one",
                             lo.need_static(count, "the number of scales or zero points of a vector")));
  Shape shape(static_cast<size_t>(rank - axis), 1);
  shape[0] = count;
  return lo.b.reshape(list, shape);
}

struct Range {
  double least, most;
};

Range range(DType dtype) { return dtype == DType::kInt8 ? Range{-128, 127} : Range{0, 255}; }

// Malformed where scales or zero points enlarged what they were applied to.
void need_shape_of(Lowering& lo, Val made, Val x) {
  const Shape have = lo.shape(made), wanted = lo.shape(x);
  if (have.size() != wanted.size() ||
      !std::equal(have.begin(), have.end(), wanted.begin(), [](Dim a, Dim b) { return !known_to_differ(a, b); }))
    lo.malformed(fmt::format("scales or zero points of a shape that does not fit {}: with them it is {}",
                             stream::to_string(wanted), stream::to_string(have)));
}

// x minus its zero point. `axis`: the axis of x that a list of zero points belongs to, or kNoAxis.
IntegerOperand integer_operand(Lowering& lo, Val x, Val zero, int axis) {
  const Range all = range(lo.dtype(x));
  const Val numbers = as_floats(lo.b, x);
  if (!zero) return {numbers, std::max(-all.least, all.most)};
  if (lo.dtype(zero) != lo.dtype(x)) lo.malformed("an operand and its zero point must have the same type");
  if (lo.rank(zero) == 1 && axis != kNoAxis) {
    const Dim count = lo.b.dim(zero, 0), extent = lo.b.dim(x, axis);
    if (stream::is_static(count) && stream::is_static(extent) && count != 1 && count != extent)
      lo.malformed(fmt::format("there are {} zero points for an axis of {} elements", count, extent));
  }
  Range zeros = all;
  if (auto known = lo.numbers(zero); known && !known->empty()) {
    const auto [least, most] = std::minmax_element(known->begin(), known->end());
    zeros = {*least, *most};
  }
  const double most = std::max(all.most - zeros.least, zeros.most - all.least);
  if (zeros.least == 0 && zeros.most == 0) return {numbers, most};
  const Val centered = lo.b.sub(numbers, broadcast_along(lo, as_floats(lo.b, zero), axis, lo.rank(x)));
  need_shape_of(lo, centered, x);
  return {centered, most};
}

// Digits, from -base to base, as a constant of integers: the file then has those in place of floats.
Val stored_as_integers(Lowering& lo, Val digit, double base) {
  constexpr double kMostInEightBits = 128;  // itself only as a base: digits are smaller
  if (!lo.b.is_constant(digit) || base > kMostInEightBits) return digit;
  const stream::RecipeRef numbers = lo.b.graph.at(digit.id).constant;
  return lo.b.constant(stream::recipe::cast(stream::recipe::cast(numbers, DType::kInt8), DType::kFloat32));
}

// The result of `product`, a float function that sums `terms` products for each element, computed exactly as i32.
template <typename Product>
Val sums_by_digits(Lowering& lo, const IntegerOperand& whole, const IntegerOperand& split, uint64_t terms,
                   Product product) {
  constexpr double kExact = 1 << 24;
  const double room = kExact / std::max(1.0, static_cast<double>(terms) * whole.most);
  if (room < 1)
    lo.unsupported(fmt::format("a sum of {} integer products is not exact in float32", terms),
                   "dequantize the operands and multiply floats");
  const double base = std::exp2(std::floor(std::log2(room + 1)));
  std::vector<Val> digits;  // the lowest first
  Val rest = split.numbers;
  for (double most = split.most; most > room; most = std::ceil(most / base)) {
    const Val higher = lo.b.floor(lo.b.mul(rest, 1 / base));
    digits.push_back(lo.b.sub(rest, lo.b.mul(higher, base)));
    rest = higher;
  }
  const bool has_digits = !digits.empty();
  auto part = [&](Val digit) {
    return product(whole.numbers, has_digits ? stored_as_integers(lo, digit, base) : digit);
  };
  Val sum = lo.b.cast(part(rest), DType::kInt32);
  for (; !digits.empty(); digits.pop_back()) {
    const Val lower = lo.b.cast(part(digits.back()), DType::kInt32);
    sum = lo.b.add(lo.b.mul(sum, base), lower);
  }
  return sum;
}

// The same of products a * b. Where sums are long, b is split; a if only b is a constant, which the file then has once.
template <typename Product>
Val exact_sums(Lowering& lo, const IntegerOperand& a, const IntegerOperand& b, uint64_t terms, Product product) {
  if (lo.b.is_constant(b.numbers) && !lo.b.is_constant(a.numbers))
    return sums_by_digits(lo, b, a, terms, [&](Val whole, Val digit) { return product(digit, whole); });
  return sums_by_digits(lo, a, b, terms, product);
}

Val vector_as_matrix(Lowering& lo, Val x, bool row) {
  if (lo.rank(x) != 1) return x;
  return lo.b.reshape(x, row ? Shape{1, lo.b.dim(x, 0)} : Shape{lo.b.dim(x, 0), 1});
}

struct MatrixAxes {
  int rows, columns;
};
MatrixAxes matrix_axes(Lowering& lo, Val x) {
  const int rank = lo.rank(x);
  return rank < 2 ? MatrixAxes{kNoAxis, kNoAxis} : MatrixAxes{rank - 2, rank - 1};
}

// Of numpy's matmul: the rows of its left operand and the columns of its right one.
MatrixAxes product_axes(Lowering& lo, Val product, Val left, Val right) {
  const int rank = lo.rank(product);
  const bool has_rows = lo.rank(left) >= 2, has_columns = lo.rank(right) >= 2;
  return {has_rows ? rank - (has_columns ? 2 : 1) : kNoAxis, has_columns ? rank - 1 : kNoAxis};
}

// numpy's matmul of two tensors less their zero points, as i32.
Val integer_matmul(Lowering& lo, Val a, Val a_zero, Val b, Val b_zero) {
  if (lo.rank(a) < 1 || lo.rank(b) < 1) lo.malformed("operands must have rank 1 or more");
  IntegerOperand left = integer_operand(lo, a, a_zero, matrix_axes(lo, a).rows),
                 right = integer_operand(lo, b, b_zero, matrix_axes(lo, b).columns);
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
  const Val made = as_levels(lo.b, levels, broadcast_along(lo, zero, axis, lo.rank(sum)), lo.dtype(zero));
  need_shape_of(lo, made, sum);
  return made;
}

// Weights and bias of a product by data on one grid, as floats; absent where they are not constants, or not per tensor
// or per channel. Inputs: the weights, their scale and zero point; an i32 bias in units of both scales.
struct RealWeights {
  Val weights, bias;
};
RealWeights real_weights(Lowering& lo, size_t at, size_t bias_at, float data_scale, int axis) {
  Builder& b = lo.b;
  const Val weights = lo.input(at);
  const auto scale = lo.numbers(lo.input(at + 1));
  const auto zero = lo.has_input(at + 2) ? lo.numbers(lo.input(at + 2)) : std::optional(std::vector<double>{0});
  if (!b.is_constant(weights) || !scale || !zero || scale->empty() || zero->empty()) return {};
  if (lo.has_input(at + 2) && lo.dtype(lo.input(at + 2)) != lo.dtype(weights)) return {};
  if (scale->size() > 1 && zero->size() > 1 && scale->size() != zero->size()) return {};
  const Val bias = lo.optional_input(bias_at);
  if (bias && (!b.is_constant(bias) || lo.dtype(bias) != DType::kInt32 || lo.rank(bias) != 1)) return {};
  const Dim channels = lo.b.dim(weights, axis);
  const size_t count = std::max(scale->size(), zero->size());
  if (count != 1 && static_cast<Dim>(count) != channels) return {};
  std::vector<float> scales, bias_scales;
  std::vector<int64_t> zeros;
  for (size_t i = 0; i < count; ++i) {
    scales.push_back(static_cast<float>(scale->at(scale->size() == 1 ? 0 : i)));
    zeros.push_back(static_cast<int64_t>(zero->at(zero->size() == 1 ? 0 : i)));
    bias_scales.push_back(data_scale * scales.back());
  }
  for (const float s : bias_scales)
    if (!(s > 0) || !std::isnormal(s)) return {};
  namespace recipe = stream::recipe;
  RealWeights out;
  out.weights = b.constant(recipe::dequantize(b.graph.at(weights.id).constant, scales, zeros, count == 1 ? -1 : axis));
  if (!bias) return out;
  if (count != 1 && lo.b.dim(bias, 0) != channels) return {};
  out.bias = b.constant(recipe::dequantize(b.graph.at(bias.id).constant, bias_scales, {}, count == 1 ? -1 : 0));
  return out;
}

// x and its grid at inputs 0 to 2, weights at `weights_at`, the result's grid at `result_at`: a float operator between
// a DEQUANTIZE and a QUANTIZE, which an integer kernel may replace. False where a grid is not constant.
template <typename Product>
bool product_on_grids(Lowering& lo, size_t weights_at, int weights_axis, size_t result_at, size_t bias_at,
                      Product product) {
  const Val x = lo.input(0);
  const auto from = constant_grid(lo, lo.input(1), lo.optional_input(2), lo.dtype(x));
  const DType type = lo.has_input(result_at + 1) ? lo.dtype(lo.input(result_at + 1)) : DType::kUint8;
  const auto to = constant_grid(lo, lo.input(result_at), lo.optional_input(result_at + 1), type);
  if (!from || !to || lo.b.is_constant(x)) return false;
  const RealWeights real = real_weights(lo, weights_at, bias_at, from->scale[0], weights_axis);
  if (!real.weights) return false;
  lo.output(0, on_grid(lo, product(real_of(lo, x, *from), real.weights, real.bias), *to, type));
  return true;
}

// Inputs: x, its scale and zero point; weights, theirs; the result's scale and zero point; an i32 bias in units of both
// scales.
void qlinear_conv(Lowering& lo, bool is_channels_last) {
  Builder& b = lo.b;
  const int rank = lo.rank(lo.input(0));
  const bool done = product_on_grids(lo, 3, 0, 6, 8, [&](Val data, Val weights, Val bias) {
    const Val y = convolution(lo, is_channels_last ? channels_first(lo, data) : data, weights, bias);
    return is_channels_last ? channels_last(lo, y) : y;
  });
  if (done) return;
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
  const int rank = lo.rank(sum);
  const MatrixAxes axes = product_axes(lo, sum, left.q, right.q);
  const Val of_columns = broadcast_along(lo, right.scale, axes.columns, rank);
  const Val of_rows = broadcast_along(lo, left.scale, axes.rows, rank);
  const Val y = b.mul(b.cast(sum, DType::kFloat32), b.mul(of_rows, of_columns));
  need_shape_of(lo, y, sum);
  return y;
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
      real_product(lo, dynamically_quantized(lo.b, lo.input(0)), {lo.input(1), lo.input(2), lo.optional_input(3)});
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
  const bool is_transposed = lo.attr_i("transB", 0) != 0;
  const bool is_scaled = lo.attr_f("alpha", 1) != 1;
  if (lo.attr_i("transA", 0) == 0 && !is_scaled && lo.has_input(7) &&
      product_on_grids(lo, 3, is_transposed ? 0 : 1, 7, 6, [&](Val data, Val weights, Val bias) {
        const Val y = matrix_product(lo, data, is_transposed ? b.transpose(weights, {1, 0}) : weights);
        return bias ? b.add(y, bias) : y;
      }))
    return;
  if (lo.attr_i("transA", 0) != 0) left = b.transpose(left, {1, 0});
  if (is_transposed) right = b.transpose(right, {1, 0});
  Val sum = integer_matmul(lo, left, one_parameter(lo, lo.input(2)), right, lo.input(5));
  if (lo.has_input(6)) sum = b.add(sum, lo.input(6));
  const Val of_columns = broadcast_along(lo, lo.input(4), 1, 2);
  Val factor = b.mul(b.mul(one_parameter(lo, lo.input(1)), of_columns), lo.attr_f("alpha", 1));
  if (!lo.has_input(7)) return lo.output(0, b.mul(b.cast(sum, DType::kFloat32), factor));
  factor = b.div(factor, one_parameter(lo, lo.input(7)));
  lo.output(0, requantized(lo, sum, factor, one_parameter(lo, lo.input(8)), 0));
}

// Two tensors of data on grids of one scale: a float product between DEQUANTIZE and QUANTIZE, as of a QDQ model.
bool products_of_data_on_grids(Lowering& lo) {
  const auto grid = [&](size_t at, DType type) { return constant_grid(lo, lo.input(at), lo.input(at + 1), type); };
  const Val left = lo.input(0), right = lo.input(3);
  if (lo.rank(left) < 2 || lo.rank(right) < 2) return false;
  const DType type = lo.dtype(lo.input(7));
  const auto of_left = grid(1, lo.dtype(left)), of_right = grid(4, lo.dtype(right)), of_result = grid(6, type);
  if (!of_left || !of_right || !of_result || lo.b.is_constant(left) || lo.b.is_constant(right)) return false;
  const Val other = real_of(lo, right, *of_right);
  lo.output(0, on_grid(lo, matrix_product(lo, real_of(lo, left, *of_left), other), *of_result, type));
  return true;
}

// Inputs: a, its scale and zero point; b, its own; the result's. Lists of scales are per row of a and per column of b.
void lower_qlinear_matmul(Lowering& lo) {
  Builder& b = lo.b;
  const Val left = lo.input(0), right = lo.input(3);
  const bool is_matrix = lo.rank(left) >= 2 && lo.rank(right) == 2;
  constexpr size_t kNoBias = 8;
  if (is_matrix && product_on_grids(lo, 3, 1, 6, kNoBias,
                                    [&](Val data, Val weights, Val) { return matrix_product(lo, data, weights); }))
    return;
  if (products_of_data_on_grids(lo)) return;
  const Val sum = integer_matmul(lo, left, lo.input(2), right, lo.input(5));
  const int rank = lo.rank(sum);
  const MatrixAxes axes = product_axes(lo, sum, left, right);
  const Val a_scale = broadcast_along(lo, b.cast(lo.input(1), DType::kFloat32), axes.rows, rank);
  const Val b_scale = broadcast_along(lo, b.cast(lo.input(4), DType::kFloat32), axes.columns, rank);
  const Val y_scale = broadcast_along(lo, b.cast(lo.input(6), DType::kFloat32), axes.rows, rank);
  lo.output(0, requantized(lo, sum, b.div(b.mul(a_scale, b_scale), y_scale), lo.input(7), axes.rows));
}

void lower_qlinear_conv(Lowering& lo) { qlinear_conv(lo, false); }

// channels_last applies to x and the result; the weights have ONNX's order.
void lower_ms_qlinear_conv(Lowering& lo) { qlinear_conv(lo, lo.attr_i("channels_last", 0) != 0); }

}  // namespace lowtide::layout
