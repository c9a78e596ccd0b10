// MatMulInteger, ConvInteger, QLinearMatMul, QLinearConv: products of 8-bit numbers with scales and zero points as
// inputs. TFLite's quantized kernels want those as properties of tensors; floats do the same. A product of two
// differences of 8-bit numbers is at most 255 * 255, so a sum of 258 of them is exact in 24 bits: where the integers
// themselves are the result, longer sums are cut in pieces of that length and added up as i32. Sources: ONNX's
// operators; ONNX Runtime rounds (half to even) before it adds the zero point.
#include <fmt/format.h>

#include <algorithm>

#include "layout/lower/convolution.h"
#include "layout/lower/product.h"

namespace lowtide::layout {
namespace {

constexpr int64_t kExactTerms = (1 << 24) / (255 * 255);

void need_8_bits(Lowering& lo, Val x) {
  if (lo.dtype(x) != DType::kInt8 && lo.dtype(x) != DType::kUint8)
    lo.unsupported(fmt::format("an integer product of {}", stream::dtype_name(lo.dtype(x))));
}

// A scalar stays; a list becomes [n, 1, ..] so that it broadcasts along `axis` of a tensor of `rank`.
Val along(Lowering& lo, Val list, int axis, int rank) {
  if (lo.rank(list) == 0) return list;
  if (lo.rank(list) > 1) return list;  // shaped by the model
  const Dim count = lo.shape(list)[0];
  if (count == 1) return lo.b.reshape(list, std::initializer_list<Dim>{});
  Shape shape(static_cast<size_t>(rank - axis), 1);
  shape[0] = count;
  return lo.b.reshape(list, shape);
}

// x minus its zero point as f32. `axis`: the axis of x that a list of zero points belongs to.
Val real(Lowering& lo, Val x, Val zero, int axis) {
  need_8_bits(lo, x);
  Val wide = lo.b.cast(x, DType::kFloat32);
  if (!zero) return wide;
  return lo.b.sub(wide, along(lo, lo.b.cast(zero, DType::kFloat32), axis, lo.rank(x)));
}

// `size` elements of an axis from `begin` on.
Val piece(Lowering& lo, Val x, int axis, int64_t begin, int64_t size) {
  std::vector<int64_t> from(static_cast<size_t>(lo.rank(x)), 0);
  std::vector<Dim> count(from.size(), -1);
  from[static_cast<size_t>(axis)] = begin;
  count[static_cast<size_t>(axis)] = size;
  return lo.b.slice(x, from, count);
}

// Sums of `terms` products, cut along one axis of each operand into pieces that are exact.
template <typename Product>
Val exact(Lowering& lo, Val a, int a_axis, Val b, int b_axis, int64_t length, int64_t step, Product product) {
  if (length <= step) return lo.b.cast(product(a, b), DType::kInt32);
  Val sum;
  for (int64_t begin = 0; begin < length; begin += step) {
    const int64_t size = std::min(step, length - begin);
    Val part = lo.b.cast(product(piece(lo, a, a_axis, begin, size), piece(lo, b, b_axis, begin, size)), DType::kInt32);
    sum = sum ? lo.b.add(sum, part) : part;
  }
  return sum;
}

Val vector_as_matrix(Lowering& lo, Val x, bool row) {
  if (lo.rank(x) != 1) return x;
  return lo.b.reshape(x, row ? Shape{1, lo.shape(x)[0]} : Shape{lo.shape(x)[0], 1});
}

// The result of a product without the axes that stood for a vector.
Val without_vectors(Lowering& lo, Val y, Val a, Val b) {
  std::vector<int> added;
  if (lo.rank(a) == 1) added.push_back(lo.rank(y) - 2);
  if (lo.rank(b) == 1) added.push_back(lo.rank(y) - 1);
  return added.empty() ? y : lo.b.squeeze(y, added);
}

// round(x * factor) + zero, kept in the range of the zero point's dtype.
Val requantized(Lowering& lo, Val x, Val factor, Val zero, int axis) {
  Builder& b = lo.b;
  need_8_bits(lo, zero);
  const bool is_signed = lo.dtype(zero) == DType::kInt8;
  Val y = b.round(b.mul(x, factor));
  y = b.add(y, along(lo, b.cast(zero, DType::kFloat32), axis, lo.rank(x)));
  y = b.minimum(b.maximum(y, b.scalar_like(is_signed ? -128 : 0, y)), b.scalar_like(is_signed ? 127 : 255, y));
  return b.cast(y, lo.dtype(zero));
}

}  // namespace

void lower_matmul_integer(Lowering& lo) {
  const Val a = lo.input(0), b = lo.input(1);
  if (lo.rank(a) < 1 || lo.rank(b) < 1) lo.malformed("an operand is a scalar");
  Val left = vector_as_matrix(lo, real(lo, a, lo.optional_input(2), std::max(0, lo.rank(a) - 2)), true);
  Val right = vector_as_matrix(lo, real(lo, b, lo.optional_input(3), lo.rank(b) - 1), false);
  const int64_t terms = lo.need_static(lo.b.dim(left, -1), "the inner extent");
  Val y = exact(lo, left, lo.rank(left) - 1, right, lo.rank(right) - 2, terms, kExactTerms,
                [&](Val x, Val w) { return matrix_product(lo, x, w); });
  lo.output(0, without_vectors(lo, y, a, b));
}

void lower_conv_integer(Lowering& lo) {
  Val x = real(lo, lo.input(0), lo.optional_input(2), 0), weights = real(lo, lo.input(1), lo.optional_input(3), 0);
  const std::vector<int64_t> shape = lo.need_static(lo.shape(weights), "the shape of the weights");
  if (shape.size() < 3) lo.malformed(fmt::format("weights have rank {}, at least 3 is needed", shape.size()));
  uint64_t taps = 1;
  for (size_t i = 2; i < shape.size(); ++i) taps = stream::checked_mul(taps, static_cast<uint64_t>(shape[i]));
  const int64_t step = taps == 0 ? 0 : kExactTerms / static_cast<int64_t>(taps);
  const bool grouped = lo.attr_i("group", 1) != 1;
  if (step < 1 || (grouped && shape[1] > step))
    lo.unsupported(fmt::format("ConvInteger with sums of {} products, which floats do not hold exactly",
                               stream::checked_mul(taps, static_cast<uint64_t>(shape[1]))));
  lo.output(0,
            exact(lo, x, 1, weights, 1, shape[1], step, [&](Val part, Val w) { return convolution(lo, part, w, {}); }));
}

// a, its scale and zero point, b, ..., then those of the result. A list of scales is one for each row of a, column of
// b.
void lower_qlinear_matmul(Lowering& lo) {
  Builder& b = lo.b;
  const Val left = lo.input(0), right = lo.input(3);
  if (lo.rank(left) < 1 || lo.rank(right) < 1) lo.malformed("an operand is a scalar");
  const int row = std::max(0, lo.rank(left) - 2);
  Val x = vector_as_matrix(lo, real(lo, left, lo.input(2), row), true);
  Val w = vector_as_matrix(lo, real(lo, right, lo.input(5), lo.rank(right) - 1), false);
  Val y = without_vectors(lo, matrix_product(lo, x, w), left, right);
  Val a_scale = along(lo, b.cast(lo.input(1), DType::kFloat32), row, lo.rank(left));
  Val b_scale = along(lo, b.cast(lo.input(4), DType::kFloat32), lo.rank(right) - 1, lo.rank(right));
  Val y_scale = along(lo, b.cast(lo.input(6), DType::kFloat32), row, lo.rank(left));
  lo.output(0, requantized(lo, y, b.div(b.mul(a_scale, b_scale), y_scale), lo.input(7), row));
}

// x, its scale and zero point, weights, ..., the result's, and a bias in units of both scales.
void lower_qlinear_conv(Lowering& lo) {
  Builder& b = lo.b;
  const int rank = lo.rank(lo.input(0));
  Val x = real(lo, lo.input(0), lo.input(2), 1), weights = real(lo, lo.input(3), lo.input(5), 0);
  Val bias = lo.has_input(8) ? b.cast(lo.input(8), DType::kFloat32) : Val{};
  Val y = convolution(lo, x, weights, bias);
  auto scale = [&](size_t i) { return along(lo, b.cast(lo.input(i), DType::kFloat32), 1, rank); };
  lo.output(0, requantized(lo, y, b.div(b.mul(scale(1), scale(4)), scale(6)), lo.input(7), 1));
}

}  // namespace lowtide::layout
