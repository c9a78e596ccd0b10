// SPDX-License-Identifier: Apache-2.0
// A model that is to be written: nodes as protobuf has them, initializers as rules instead of bytes.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "schemas/onnx.pb.h"

namespace lowtide::bench {

/// A FLOAT tensor of uniform values in [low, high).
struct UniformValues {
  float low;
  float high;
};

/// An INT64 tensor: shapes, slices.
using IntValues = std::vector<int64_t>;

struct Initializer {
  std::string name;
  std::vector<int64_t> dims;
  std::variant<UniformValues, IntValues> values;

  uint64_t bytes() const;
};

struct Graph {
  onnx::GraphProto head;  // name and nodes
  std::vector<Initializer> initializers;
  onnx::GraphProto tail;  // inputs and outputs

  /// Of all FLOAT initializers.
  uint64_t weight_bytes() const;
};

}  // namespace lowtide::bench
