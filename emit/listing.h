// SPDX-License-Identifier: Apache-2.0
// Lists a model of either format, or one that is being converted, as text or JSON.
#pragma once

#include <string>

#include "layout/core/graph.h"
#include "stream/onnx/model.h"
#include "stream/tflite/model.h"

namespace lowtide::emit {

struct ListedTensor {
  std::string name, dtype;
  std::vector<std::string> shape;  // extents, or names of symbols
  uint64_t bytes = 0;              // constants only
};
struct ListedOp {
  std::string op;    // "Conv", "CONV_2D", "com.microsoft.Gelu"
  std::string name;  // may be empty
  std::vector<std::string> inputs, outputs;
  std::vector<ListedTensor> results;                            // what is known of the outputs
  std::vector<std::pair<std::string, std::string>> attributes;  // name, value as text
};
struct ListedGraph {
  std::string name;
  std::vector<ListedTensor> inputs, outputs, constants;
  std::vector<ListedOp> ops;
};
struct Listing {
  std::string format;                                      // "ONNX", "TFLite", "core"
  std::vector<std::pair<std::string, std::string>> facts;  // versions, producers, sizes
  std::vector<ListedGraph> graphs;
};

Listing listing(const onnx::Model& model);
Listing listing(const tfl::Model& model);
Listing listing(const core::Model& model);

std::string listing_text(const Listing& listing);
std::string listing_json(const Listing& listing);

}  // namespace lowtide::emit
