// SPDX-License-Identifier: Apache-2.0
// Lists a model of either format, or one that is being converted, as text or JSON.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "layout/core/graph.h"
#include "stream/onnx/model.h"
#include "stream/tflite/model.h"

namespace lowtide::emit {

// Of an axis: a number, or text where only the run knows it. A name may look like a number: "007".
struct ListedExtent {
  std::string text;
  bool is_number = false;

  explicit ListedExtent(std::string name) : text(std::move(name)) {}
  explicit ListedExtent(int64_t number) : text(std::to_string(number)), is_number(true) {}
};
std::string joined(const std::vector<ListedExtent>& shape);  // "1,n,3"

struct ListedTensor {
  std::string name, dtype;
  std::vector<ListedExtent> shape;
  uint64_t bytes = 0;  // constants only
};
// A fact or an attribute: as text, and for JSON as what it is.
struct ListedValue {
  using Plain = std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string, std::vector<int64_t>,
                             std::vector<double>, std::vector<std::string>>;
  std::string text;
  Plain plain;  // std::monostate: the text

  ListedValue(std::string shown) : text(std::move(shown)) {}
  ListedValue(const char* shown) : text(shown) {}
  ListedValue(std::string shown, Plain value) : text(std::move(shown)), plain(std::move(value)) {}
  ListedValue(uint64_t number) : text(std::to_string(number)), plain(number) {}
  ListedValue(int64_t number) : text(std::to_string(number)), plain(number) {}
};
struct ListedOp {
  std::string op;    // "Conv", "CONV_2D", "com.microsoft.Gelu"
  std::string name;  // may be empty
  std::vector<std::string> inputs, outputs;
  std::vector<ListedTensor> results;  // what is known of the outputs
  std::vector<std::pair<std::string, ListedValue>> attributes;
};
struct ListedGraph {
  std::string name;
  std::vector<ListedTensor> inputs, outputs, constants;
  std::vector<ListedOp> ops;
};
struct Listing {
  std::string format;                                      // "ONNX", "TFLite", "core"
  std::vector<std::pair<std::string, ListedValue>> facts;  // versions, producers, sizes
  std::vector<ListedGraph> graphs;
};

Listing listing(const onnx::Model& model);
Listing listing(const tfl::Model& model);
Listing listing(const core::Model& model);

std::string listing_text(const Listing& listing);
// As schemas/inspect.schema.json says.
std::string listing_json(const Listing& listing);

}  // namespace lowtide::emit
