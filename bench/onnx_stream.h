// Writes a Graph as an ONNX file, front to back, while its weights are made.
#pragma once

#include <cstdint>
#include <filesystem>

#include "bench/graph.h"
#include "bench/models.h"

namespace lowtide::bench {

struct OnnxOptions {
  uint64_t seed = 0;
  int opset = 17;
  bool external = false;
  bool sparse = false;  // external too
  Progress progress;
};

/// The first and last opset that the generated graphs are valid in.
constexpr int kOldestOpset = 13;
constexpr int kNewestOpset = 23;

/// External data lies in "<out>.data", each tensor at a multiple of 64; tensors below 1 KiB stay inline. A model that
/// would not fit in one protobuf message (2 GiB) gets external data unasked. Throws stream::Error; then no file of the
/// two is new.
MadeModel write_onnx(const Graph& graph, const std::filesystem::path& out, const OnnxOptions& options);

}  // namespace lowtide::bench
