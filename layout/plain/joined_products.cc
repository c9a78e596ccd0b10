// SPDX-License-Identifier: Apache-2.0
// A sum of two products by constants is one product of both operands, which CONCATENATION puts side by side:
//
//     x * W + h * R      becomes      [x h] * [W R]
//
// So a recurrent network that is run step by step computes its gates. CONCATENATION moves fewer bytes than ADD where
// the products have more columns than the operands have, and each thread gets its part of one product in place of two.
// Measured with ai-edge-litert 2.3.0, the time after in units of the time before, one thread and two:
//
//     columns of x, of h, of the products
//     64, 64, 256          0.94   0.87
//     257, 128, 512        1.00   0.86
//     128, 256, 1024       0.99   0.86
//     32, 512, 2048        0.98   0.88
//
// Large matrices take the time that reading them takes, and stay as they are.
#include <optional>

#include "layout/core/builtin.h"
#include "layout/plain/plain.h"
#include "layout/plain/rules.h"

namespace lowtide::layout {
namespace {

using core::Shape;

constexpr core::Dim kMostWeights = 1 << 22;  // of both matrices together: 16 MiB

struct Product {
  Val data, weights, bias;
  core::Dim rows, inner;  // of the data, whose axes but the last are one in the product
};

// The FULLY_CONNECTED that makes a matrix which nothing else reads, with a RESHAPE behind it or not.
OpId layer_of(Rewriter& rewriter, ValueId id) {
  const Shape& shape = rewriter.value(id).shape;
  if (shape.size() != 2 || !is_float(rewriter, id)) return -1;
  const OpId reshape = rewriter.sole_producer(id, Kind::kReshape);
  if (reshape < 0) return rewriter.sole_producer(id, Kind::kFullyConnected);
  const ValueId before = rewriter.op(reshape).inputs[0];
  return rewriter.value(before).shape.back() == shape.back() ? rewriter.sole_producer(before, Kind::kFullyConnected)
                                                             : -1;
}

std::optional<Product> matrix_product_of(Rewriter& rewriter, ValueId id) {
  const OpId layer = layer_of(rewriter, id);
  if (layer < 0) return std::nullopt;
  const Op& op = rewriter.op(layer);
  const ValueId data = op.inputs[0], weights = op.inputs[1];
  const Val bias{op.inputs.size() > 2 ? op.inputs[2] : core::kAbsent};
  if (core::fused_activation(op) != core::Activation::kNone || rewriter.value(data).is_constant()) return std::nullopt;
  if (!rewriter.is_foldable(weights) || rewriter.uses(weights) != 1) return std::nullopt;
  for (const ValueId each : {data, weights, bias.id})
    if (each != core::kAbsent && !is_float(rewriter, each)) return std::nullopt;
  // FULLY_CONNECTED also takes data whose last axis is only a part of what it sums. Such data is left alone.
  const Shape& matrix = rewriter.value(weights).shape;
  const Shape& shape = rewriter.value(data).shape;
  if (shape.empty() || shape.back() != matrix[1]) return std::nullopt;
  return Product{{data}, {weights}, bias, rewriter.value(id).shape[0], matrix[1]};
}

bool join_products_at(Rewriter& rewriter, OpId id) {
  const Op sum = rewriter.op(id);
  if (sum.inputs[0] == sum.inputs[1]) return false;
  const auto one = matrix_product_of(rewriter, sum.inputs[0]), other = matrix_product_of(rewriter, sum.inputs[1]);
  const Shape& made = rewriter.value(sum.outputs[0]).shape;
  if (!one || !other || one->rows != other->rows || made.size() != 2 || !is_float(rewriter, sum.outputs[0]))
    return false;
  const core::Dim columns = rewriter.value(one->weights.id).shape[0], inner = one->inner + other->inner;
  if (rewriter.value(other->weights.id).shape[0] != columns || inner > columns || columns > kMostWeights / inner)
    return false;
  // The sum of two biases is computed when the model is converted.
  const bool adds_biases = one->bias && other->bias;
  if (adds_biases && !(rewriter.is_foldable(one->bias.id) && rewriter.is_foldable(other->bias.id))) return false;
  core::Builder& b = rewriter.b;
  b.origin = sum.origin;
  const Val bias = adds_biases ? b.add(one->bias, other->bias) : one->bias ? one->bias : other->bias;
  auto rows_of = [&](const Product& product) {
    return b.reshape(product.data, std::vector<core::Dim>{product.rows, product.inner});
  };
  const Val data = b.concat({rows_of(*one), rows_of(*other)}, 1);
  const Val weights = b.concat({one->weights, other->weights}, 1);
  const Val product = b.fully_connected(data, weights, bias, false);
  const OpId joined = rewriter.graph.at(product.id).producer;
  std::get<core::FullyConnectedOptions>(rewriter.op(joined).options).activation = core::fused_activation(sum);
  replace_result(rewriter, sum.outputs[0], product);
  return true;
}

}  // namespace

void join_products(core::Graph& graph) { core::apply_rule(graph, Kind::kAdd, join_products_at); }

}  // namespace lowtide::layout
