// SPDX-License-Identifier: Apache-2.0
// DENSIFY and sparse weights of FULLY_CONNECTED: constants, whose dense bytes are made as they are written (sparse.h).
#include <fmt/format.h>

#include <algorithm>

#include "layout/raise/import_graph.h"
#include "layout/raise/import_values.h"
#include "stream/error.h"
#include "stream/tflite/sparse.h"

namespace lowtide::layout {

using stream::Unsupported;

namespace {

// For a byte that is stored. Weights of which less is stored are in no model, and count as bytes that are made.
constexpr uint64_t kMostDenseBytes = 1024;

}  // namespace

void GraphImport::take_sparse(SubgraphScope& scope, int32_t tensor) {
  const tfl::Tensor& from = scope.from.tensors[static_cast<size_t>(tensor)];
  ValueId& made = scope.values[static_cast<size_t>(tensor)];
  if (!from.is_sparse || made != kNotMade) return;
  RecipeRef& dense = shared_.dense[&from];
  if (!dense) {
    try {
      dense = stream::dense_recipe(from);
    } catch (stream::Error& error) {
      error.add_place({.slot = fmt::format("tensor '{}'", from.name)});
      throw;
    }
    const uint64_t stored = kMostDenseBytes * from.data_bytes;
    count_made_bytes(dense->bytes() - std::min(dense->bytes(), stored));
  }
  const std::optional<core::Quantization> quantization = quantization_of(from);
  const ValueId constant = graph_.add_constant(dense, from.name);
  set_scales(constant, quantization);
  made = constant;
}

void GraphImport::densify(SubgraphScope& scope, const tfl::Operator& op) {
  if (op.inputs.size() != 1 || op.outputs.size() != 1 || op.inputs[0] < 0)
    malformed_model("DENSIFY needs one input and one output");
  const tfl::Tensor& from = scope.from.tensors[static_cast<size_t>(op.inputs[0])];
  const tfl::Tensor& to = scope.from.tensors[static_cast<size_t>(op.outputs[0])];
  if (!from.is_sparse) malformed_model(fmt::format("'{}' is no sparse tensor", from.name));
  take_sparse(scope, op.inputs[0]);
  const ValueId dense = scope.values[static_cast<size_t>(op.inputs[0])];
  need_numbers(to);
  if (to.dtype != from.dtype || quantization_of(to) != graph_.at(dense).quantization)
    throw Unsupported(fmt::format("output '{}' differs in type or scale from '{}'", to.name, from.name));
  compare_shape(graph_.at(dense).shape, to);
  scope.values[static_cast<size_t>(op.outputs[0])] = dense;
}

}  // namespace lowtide::layout
