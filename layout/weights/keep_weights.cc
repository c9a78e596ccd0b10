// SPDX-License-Identifier: Apache-2.0
#include "layout/weights/keep_weights.h"

#include <utility>

#include "layout/core/builder.h"
#include "layout/core/replacements.h"
#include "stream/recipe/in_place.h"

namespace lowtide::layout {
namespace {

using core::Activation;
using core::Builder;
using core::Kind;
using core::Op;
using core::Val;

// The matrix [K, N] that weights [N, K] are the transpose of, if it can stay in its file. A matrix in f16 can too:
// shrink_weights then adds a DEQUANTIZE.
stream::RecipeRef stored_matrix(const core::Value& weights) {
  if (!weights.constant || weights.quantization) return nullptr;
  stream::RecipeRef matrix = stream::recipe::permute(weights.constant, {1, 0});
  return stream::stored_in_place(*matrix) || stream::reads_halves_in_place(*matrix) ? matrix : nullptr;
}

Val with_activation(Builder& b, Val x, Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return b.relu(x);
    case Activation::kReluN1To1:
      return b.relu_n1_to_1(x);
    case Activation::kRelu6:
      return b.relu6(x);
  }
  return x;
}

// As one matrix: with batches, XNNPACK would read the weights once for each batch. Batches of dynamic size stay,
// because CompiledModel cannot know the shape of an output that depends on a shape computed at run time.
Val rows(Builder& b, Val x) {
  core::Shape lead = b.shape(x);
  const core::Dim last = lead.back();
  lead.pop_back();
  if (!stream::is_static(lead) || stream::element_count(lead) == static_cast<uint64_t>(lead.back())) return x;
  return b.reshape(x, {b.graph.symbols.product(lead), last});
}

// Absent when the op must not be changed.
Val kept_matmul(Builder& b, const Op& op) {
  const auto& options = std::get<core::FullyConnectedOptions>(op.options);
  const Val x{op.inputs[0]}, bias{op.inputs.size() > 2 ? op.inputs[2] : core::kAbsent};
  const stream::RecipeRef matrix = stored_matrix(b.graph.at(op.inputs[1]));
  if (!matrix || b.rank(x) < 2 || (b.rank(x) > 2 && !options.keep_num_dims)) return {};
  b.origin = op.origin;
  Val y = b.batch_matmul(rows(b, x), b.constant(matrix, b.graph.at(op.inputs[1]).name));
  y = bias ? b.op(Kind::kAdd, {y, bias}, core::BinaryOptions{options.activation})
           : with_activation(b, y, options.activation);
  return b.reshape(y, b.graph.at(op.outputs[0]).shape);
}

}  // namespace

void keep_weights(core::Graph& graph) {
  Builder b(graph);
  core::Replacements replacements(graph);
  const size_t op_count = graph.ops.size();
  for (size_t i = 0; i < op_count; ++i) {
    if (graph.ops[i].kind != Kind::kFullyConnected) continue;
    const Op op = replacements.now(graph.ops[i]);
    const Val made = kept_matmul(b, op);
    if (!made) continue;
    graph.at(made.id).name = std::exchange(graph.at(op.outputs[0]).name, {});
    graph.ops[i].kind = Kind::kDead;
    replacements.note(op.outputs[0], made.id);
  }
  replacements.apply();
  graph.tidy();
}

}  // namespace lowtide::layout
