// SPDX-License-Identifier: Apache-2.0
// Divides an ONNX model between a target and ONNX Runtime: pieces in the order in which they run.
//
// Whether a node can be in the target is decided by converting: what the conversion of a piece refuses goes to ONNX,
// and the model is divided anew, until nothing is refused.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "layout/model_types.h"
#include "layout/model_units.h"
#include "layout/partition/unit_graph.h"
#include "stream/error.h"
#include "stream/onnx/model.h"

namespace lowtide::layout {

struct ModelPiece {
  PieceRuntime runtime = PieceRuntime::kOnnx;
  std::vector<size_t> nodes;                 // of DividedModel::model, ascending; without copies of constant nodes
  std::vector<std::string> inputs, outputs;  // values
  uint64_t weight_bytes = 0;                 // as piece_weights.h counts them
};

struct DivideOptions {
  enum class Prefer : uint8_t {
    kCheap,     // the lowest cost; what the target can run may be in ONNX
    kFewest,    // what the target can run is there, in the fewest pieces, with the fewest bytes between them
    kCoverage,  // what the target can run is there, at the lowest cost
  };
  Prefer prefer = Prefer::kCheap;
  uint64_t max_piece = 0;         // bytes of weights and the largest activations of a piece; 0: any
  size_t max_pieces = 0;          // 0: any
  uint64_t max_target_piece = 0;  // the same of pieces in the target
  size_t max_target_pieces = 0;
  double penalty = 2;                            // how much slower work outside the target is
  MeasuredWork measured;                         // of the nodes; without it all is estimated
  std::map<std::string, onnx::ValueInfo> types;  // --value
  // Why a node must not be in the target, though it could be converted; empty text: it may.
  std::function<std::string(const onnx::Node&, const ModelTypes&)> refuse;
  // Nodes of a piece for the target that must not be in it, with the reason: what only the division tells.
  std::function<std::vector<std::pair<size_t, std::string>>(const onnx::Model&, const ModelPiece&, const ModelTypes&)>
      refuse_in_piece;
  std::vector<std::vector<size_t>> groups;  // nodes that stay together, by their places in the graph
  // Whether the target takes ONNX itself: then `refuse` alone decides, and nothing is converted.
  bool takes_onnx = false;
  // What the conversion of a piece refuses. The nodes of the piece are copies with marks (marked_nodes.h); what it
  // throws is taken as a refusal when it is of kind kUnsupported or kMalformed.
  std::function<std::vector<stream::Unsupported>(const onnx::Model& piece)> convert;
};

struct NodePlace {
  std::string name, op;
  size_t piece = SIZE_MAX;  // SIZE_MAX: none
  std::string reason;       // why it is not in the target, or in no piece
};

struct DividedModel {
  onnx::Model model;  // with the types of the values between pieces, and known integers as initializers
  std::vector<ModelPiece> pieces;
  std::vector<NodePlace> nodes;                       // of the model as it was
  std::map<std::string, onnx::ValueInfo> values;      // what crosses borders, inputs and outputs included
  std::vector<std::vector<std::string>> certificate;  // paths that no division with fewer pieces can follow
  bool is_cheapest = true;              // no division of this kind costs less; else the best that was found
  size_t fewest = 0;                    // pieces, when all that the target can run is there
  std::vector<std::string> undeclared;  // values to declare (--value)
  double work_in_target = 0;            // of all work, from 0 to 1
};

// Throws Error: kUsage (--max-pieces and the target's own limit too), kMalformed, kBudget (--max-piece), kUnsupported
// for a model whose inputs and outputs are not all tensors.
DividedModel divide_model(onnx::Model model, const DivideOptions& options, stream::Budget& budget);

// A piece as a model of its own; weights are shared. `with_marks`: its nodes are marked with their numbers.
onnx::Model piece_model(const DividedModel& divided, const ModelPiece& piece, bool with_marks = false);

}  // namespace lowtide::layout
