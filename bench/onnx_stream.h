// SPDX-License-Identifier: Apache-2.0
// Writes a Graph as an ONNX file, front to back, while its weights are made.
#pragma once

#include <cstdint>
#include <filesystem>

#include "bench/graph.h"
#include "bench/model_spec.h"

namespace lowtide::bench {

struct OnnxOptions {
  uint64_t seed = 0;
  int opset = 17;
  bool external = false;
  bool sparse = false;  // external too
  uint64_t files = 1;   // of external data
  Progress progress;
};

/// The first and last opset that the generated graphs are valid in.
constexpr int kOldestOpset = 13;
constexpr int kNewestOpset = 23;

/// External data lies in "<out>.data", or is divided between "<out>.data.0" and so on, each tensor at a multiple of 64;
/// tensors below 1 KiB stay inline. A model that would not fit in one protobuf message (2 GiB) gets external data
/// unasked. Throws stream::Error; then the model is not new, and what is new of its data is removed.
MadeModel write_onnx(const Graph& graph, const std::filesystem::path& out, const OnnxOptions& options);

}  // namespace lowtide::bench
