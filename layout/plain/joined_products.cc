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

#include "layout/plain/plain.h"
#include "layout/plain/rules.h"

namespace lowtide::layout {
namespace {

using core::Shape;

constexpr core::Dim kMostWeights = 1 << 22;  // of both matrices together: 16 MiB

struct Product {
  Val data, weights, bias;
  core::Dim rows, inner;
};

// The product of matrices that makes a value which nothing else reads.
std::optional<Product> product_of(Rewriter& rewriter, ValueId id) {
  const OpId producer = rewriter.sole_producer(id, Kind::kFullyConnected);
  if (producer < 0) return std::nullopt;
  const Op& op = rewriter.op(producer);
  const ValueId data = op.inputs[0], weights = op.inputs[1];
  if (core::fused_activation(op) != core::Activation::kNone || rewriter.value(data).is_constant()) return std::nullopt;
  if (!is_float(rewriter, data) || !is_float(rewriter, weights) || !is_float(rewriter, id)) return std::nullopt;
  if (!rewriter.is_constant(weights) || rewriter.uses(weights) != 1) return std::nullopt;
  const Shape& shape = rewriter.value(data).shape;
  if (shape.size() != 2 || rewriter.value(id).shape.size() != 2) return std::nullopt;
  const Val bias{op.inputs.size() > 2 ? op.inputs[2] : core::kAbsent};
  if (bias && (!rewriter.is_constant(bias.id) || !is_float(rewriter, bias.id))) return std::nullopt;
  return Product{{data}, {weights}, bias, shape[0], shape[1]};
}

Val sum_of_constants(core::Builder& b, Val one, Val other) {
  return one && other ? b.add(one, other) : one ? one : other;
}

bool join_products_at(Rewriter& rewriter, OpId id) {
  const Op sum = rewriter.op(id);
  if (sum.inputs[0] == sum.inputs[1]) return false;
  const auto one = product_of(rewriter, sum.inputs[0]), other = product_of(rewriter, sum.inputs[1]);
  const Shape& made = rewriter.value(sum.outputs[0]).shape;
  if (!one || !other || one->rows != other->rows || made.size() != 2 || !is_float(rewriter, sum.outputs[0]))
    return false;
  const core::Dim columns = rewriter.value(one->weights.id).shape[0], inner = one->inner + other->inner;
  if (rewriter.value(other->weights.id).shape[0] != columns || inner > columns || columns > kMostWeights / inner)
    return false;
  core::Builder& b = rewriter.b;
  b.origin = sum.origin;
  const Val bias = sum_of_constants(b, one->bias, other->bias);
  if (bias && !b.is_constant(bias)) return false;
  const Val data = b.concat({one->data, other->data}, 1), weights = b.concat({one->weights, other->weights}, 1);
  const Val product = b.fully_connected(data, weights, bias, false);
  const OpId joined = rewriter.graph.at(product.id).producer;
  std::get<core::FullyConnectedOptions>(rewriter.op(joined).options).activation = core::fused_activation(sum);
  replace_result(rewriter, sum.outputs[0], product);
  return true;
}

}  // namespace

void join_products(core::Graph& graph) { core::apply_rule(graph, Kind::kAdd, join_products_at); }

}  // namespace lowtide::layout
