// SPDX-License-Identifier: Apache-2.0
// Gemm and MatMul. A constant right matrix becomes the transposed weights of FULLY_CONNECTED (a recipe), any other
// product is BATCH_MATMUL, whose adj flags take Gemm's transposes. Both compute floats only: integer products are
// written as multiplications and a sum. BATCH_MATMUL takes up to five axes; if there are more, batch axes are merged.
// Sources: ONNX's Gemm and MatMul (numpy's matmul); LiteRT's fully_connected.cc and batch_matmul.cc.
#include "layout/lower/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "layout/lower/shapes_and_indices.h"

namespace lowtide::layout {
namespace {

constexpr int kMostAxes = 5;  // of BATCH_MATMUL

// The broadcast batch axes of both operands.
Shape batch_of(Lowering& lo, Val a, Val b) {
  Shape x(lo.shape(a).begin(), lo.shape(a).end() - 2), y(lo.shape(b).begin(), lo.shape(b).end() - 2);
  const size_t rank = std::max(x.size(), y.size());
  x.insert(x.begin(), rank - x.size(), 1);
  y.insert(y.begin(), rank - y.size(), 1);
  for (size_t i = 0; i < rank; ++i) {
    if (known_to_differ(x[i], y[i]) && x[i] != 1 && y[i] != 1)
      lo.malformed(fmt::format("operands of shapes {} and {} cannot be multiplied: their batch axes differ",
                               stream::to_string(lo.shape(a)), stream::to_string(lo.shape(b))));
    const bool only_y_is_known = y[i] != 1 && core::is_symbol(x[i]) && !core::is_symbol(y[i]);
    if (x[i] == 1 || only_y_is_known)
      x[i] = y[i];
    else if (core::is_symbol(x[i]) && core::is_symbol(y[i]))
      x[i] = lo.b.graph.symbols.max(x[i], y[i]);  // either may be 1
  }
  return x;
}

// x with its batch axes as one, broadcast to `batch` unless it has none.
Val merged(Lowering& lo, Val x, const Shape& batch) {
  if (lo.rank(x) == 2) return x;
  const Dim rows = lo.b.dim(x, -2), columns = lo.b.dim(x, -1);
  Shape whole = batch;
  whole.insert(whole.end(), {rows, columns});
  return lo.b.reshape(lo.b.broadcast_to(x, whole), {lo.b.graph.symbols.product(batch), rows, columns});
}

Val float_product(Lowering& lo, Val a, Val b, bool adj_a, bool adj_b) {
  if (std::max(lo.rank(a), lo.rank(b)) <= kMostAxes) return lo.b.batch_matmul(a, b, adj_a, adj_b);
  Shape shape = batch_of(lo, a, b);
  b = merged(lo, b, shape);
  Val y = lo.b.batch_matmul(merged(lo, a, shape), b, adj_a, adj_b);
  shape.insert(shape.end(), {lo.b.dim(y, -2), lo.b.dim(y, -1)});
  return lo.b.reshape(y, shape);
}

// [.., M, K, 1] * [.., 1, K, N] summed over K.
Val integer_product(Lowering& lo, Val a, Val b) {
  Shape x = lo.shape(a), y = lo.shape(b);
  x.push_back(1);
  y.insert(y.end() - 2, 1);
  b = lo.b.reshape(b, y);
  Val products = lo.b.mul(lo.b.reshape(a, x), b);
  return lo.b.sum(products, std::vector<int>{lo.rank(products) - 2}, false);
}

void check_inner(Lowering& lo, Dim a, Dim b) {
  if (stream::is_static(a) && stream::is_static(b) && a != b)
    lo.malformed(fmt::format("the inner dimensions must be equal; they are {} and {}", a, b));
}

// Gemm's C is broadcast to the product; the product is not broadcast to C, as an ADD would.
void check_addend(Lowering& lo, const Shape& addend, const Shape& product) {
  bool fits = addend.size() <= product.size();
  for (size_t i = 0; fits && i < addend.size(); ++i) {
    const Dim have = addend[addend.size() - 1 - i], to = product[product.size() - 1 - i];
    fits = have == 1 || core::is_symbol(have) || core::is_symbol(to) || have == to;
  }
  if (!fits)
    lo.misfit(fmt::format("C of shape {} cannot be broadcast to the product of shape {}", stream::to_string(addend),
                          stream::to_string(product)));
}

// Gemm's C as a constant bias of `units` elements; absent when C is not constant or has another shape.
Val as_bias(Lowering& lo, Val c, Dim units, double beta) {
  if (!lo.b.is_constant(c) || core::is_symbol(units)) return {};
  const Shape& shape = lo.shape(c);
  for (size_t i = 0; i + 1 < shape.size(); ++i)
    if (shape[i] != 1) return {};
  if (!shape.empty() && shape.back() != 1 && shape.back() != units) return {};
  Val flat = lo.b.broadcast_to(lo.b.reshape(c, {shape.empty() ? 1 : shape.back()}), Shape{units});
  return beta == 1 ? flat : lo.b.mul(flat, beta);
}

Val scaled(Lowering& lo, Val x, double factor) {
  if (factor == 1) return x;
  if (!stream::is_float(lo.dtype(x)) && !(std::isfinite(factor) && factor == std::trunc(factor)))
    lo.unsupported(fmt::format("an integer product scaled by {} is not supported", factor));
  return lo.b.mul(x, factor);
}

}  // namespace

Val matrix_product(Lowering& lo, Val a, Val b) {
  check_inner(lo, lo.b.dim(a, -1), lo.b.dim(b, -2));
  if (!stream::is_float(lo.dtype(a))) return integer_product(lo, a, b);
  if (lo.b.dim(a, -1) == 0 ||
      lo.b.dim(b, -2) == 0) {  // an empty sum is 0; the kernels would leave the output uninitialized
    Shape shape = batch_of(lo, a, b);
    shape.insert(shape.end(), {lo.b.dim(a, -2), lo.b.dim(b, -1)});
    return lo.b.broadcast_to(lo.b.scalar(0, lo.dtype(a)), shape);
  }
  if (lo.b.is_constant(b) && lo.rank(b) == 2) return lo.b.fully_connected(a, lo.b.transpose(b, {1, 0}), {}, true);
  return float_product(lo, a, b, false, false);
}

Val gemm(Lowering& lo) {
  Val a = lo.input(0), b = lo.input(1);
  const Val c = lo.optional_input(2);
  if (lo.rank(a) != 2 || lo.rank(b) != 2)
    lo.malformed(fmt::format("the operands must have rank 2; they have ranks {} and {}", lo.rank(a), lo.rank(b)));
  const bool trans_a = lo.attr_i("transA", 0) != 0, trans_b = lo.attr_i("transB", 0) != 0;
  const float alpha = lo.attr_f("alpha", 1), beta = lo.attr_f("beta", 1);
  if (lo.opset() < 7) lo.ignore_attr("broadcast");  // follows from C's shape
  const Dim rows = lo.b.dim(a, trans_a ? 1 : 0), units = lo.b.dim(b, trans_b ? 0 : 1);
  const Dim inner_a = lo.b.dim(a, trans_a ? 0 : 1), inner_b = lo.b.dim(b, trans_b ? 1 : 0);
  check_inner(lo, inner_a, inner_b);
  const bool has_products = inner_a != 0 && inner_b != 0;

  const bool has_c = c && beta != 0;
  if (c) check_addend(lo, lo.shape(c), {rows, units});
  Val y, bias;
  if (stream::is_float(lo.dtype(a)) && lo.b.is_constant(b) && has_products) {
    Val weights = scaled(lo, trans_b ? b : lo.b.transpose(b, {1, 0}), alpha);
    if (has_c) bias = as_bias(lo, c, units, beta);
    y = lo.b.fully_connected(trans_a ? lo.b.transpose(a, {1, 0}) : a, weights, bias, true);
  } else if (stream::is_float(lo.dtype(a)) && has_products) {
    y = scaled(lo, float_product(lo, a, b, trans_a, trans_b), alpha);
  } else {
    if (trans_a) a = lo.b.transpose(a, {1, 0});
    if (trans_b) b = lo.b.transpose(b, {1, 0});
    y = scaled(lo, matrix_product(lo, a, b), alpha);
  }
  if (has_c && !bias) y = lo.b.add(y, scaled(lo, c, beta));
  return y;
}

void lower_gemm(Lowering& lo) { lo.output(0, gemm(lo)); }

// A vector on the left is a row, one on the right a column; the inserted axis is removed from the result.
Val matmul(Lowering& lo, Val a, Val b) {
  if (lo.rank(a) < 1 || lo.rank(b) < 1)
    lo.malformed(
        fmt::format("the operands must have rank 1 or more; they have ranks {} and {}", lo.rank(a), lo.rank(b)));
  const bool row = lo.rank(a) == 1, column = lo.rank(b) == 1;
  if (row) a = lo.b.reshape(a, {1, lo.b.dim(a, 0)});
  if (column) b = lo.b.reshape(b, {lo.b.dim(b, 0), 1});
  Val y = matrix_product(lo, a, b);
  std::vector<int> added;
  if (row) added.push_back(lo.rank(y) - 2);
  if (column) added.push_back(lo.rank(y) - 1);
  return added.empty() ? y : lo.b.squeeze(y, added);
}

void lower_matmul(Lowering& lo) { lo.output(0, matmul(lo, lo.input(0), lo.input(1))); }

}  // namespace lowtide::layout
