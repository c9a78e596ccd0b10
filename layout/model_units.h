// SPDX-License-Identifier: Apache-2.0
// The units of a model that is to be divided: nodes that stay together, what they cost, and the values between them.
//
// What is known at conversion belongs to no unit: initializers, nodes that compute only from these, and shapes of
// tensors of fixed shape. Each piece gets its own copy of what it uses.
//
// Together stay: a value that is no tensor, or whose type is unknown, with the node that makes it and those that use
// it; the QuantizeLinear behind and the DequantizeLinear in front of an operator with it; bodies with the node that
// holds them, as they are parts of it. Nodes with random results (random_nodes.h) are in one piece only, and keep their
// order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layout/model_types.h"
#include "layout/partition/unit_graph.h"
#include "stream/onnx/model.h"

namespace lowtide::layout {

inline constexpr size_t kNoUnit = SIZE_MAX;

struct ModelUnits {
  UnitGraph graph;                         // numbered in an order in which they can run
  std::vector<std::vector<size_t>> nodes;  // of each unit, ascending
  std::vector<size_t> unit;                // of each node, or kNoUnit
  std::vector<bool> is_used;               // of each node: an output of the model needs it
};

// What an operation costs, in picoseconds: nothing that is measured, only good enough to compare divisions.
struct WorkCosts {
  uint64_t per_product = 50;  // a multiplication with its addition
  uint64_t per_byte = 100;    // of operands and results
  double penalty = 2;         // for work outside the target
};

// What a piece of an earlier division took when it ran. Of its nodes, in its runtime, the estimates are taken times the
// quotient of what was measured and estimated of the piece; of other nodes, times the quotient of all pieces there.
struct MeasuredPiece {
  PieceRuntime runtime = PieceRuntime::kOnnx;
  std::vector<std::string> nodes;  // labels
  double picoseconds = 0;          // of one run
};
using MeasuredWork = std::vector<MeasuredPiece>;

// `reasons`: for each node why it cannot be in the target; empty: it can. `types`: of the same model. `groups`: nodes
// that stay together besides.
ModelUnits make_units(const onnx::Model& model, const ModelTypes& types, const std::vector<std::string>& reasons,
                      const WorkCosts& costs, const MeasuredWork& measured = {},
                      const std::vector<std::vector<size_t>>& groups = {});

// Unknown extents count as 1 on the first axis, which most often is the batch, and as this on others.
inline constexpr uint64_t kAssumedExtent = 64;

// Bytes of a tensor. 0 for strings, whose size is unknown.
uint64_t bytes_of(const onnx::ValueInfo& info);

}  // namespace lowtide::layout
