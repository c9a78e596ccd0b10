// SPDX-License-Identifier: Apache-2.0
// Networks of convolutions or matrices that no publication has: nothing but weights, to measure how they are moved, or
// nothing but nodes, to measure what a node costs.
#include <algorithm>
#include <cmath>

#include "bench/networks.h"

namespace lowtide::bench {

Graph conv_stack(uint64_t bytes, bool plain, int64_t input_size) {
  constexpr uint64_t kLayers = 8;        // at least so many, as far as the narrowest layer allows,
  constexpr uint64_t kMostLayers = 256;  // and wider layers rather than more: nodes cost memory, bytes do not
  const int64_t kernel = plain ? 1 : 3;
  // Layers that grow to 16 MiB (plain) or 36 MiB: wide enough for any tile, small enough to run. What needs more than
  // kMostLayers of them is there to be converted and not to be run.
  int64_t channels = plain ? 2048 : 1024;
  const auto filter_bytes = [&] { return static_cast<uint64_t>(channels * kernel * kernel) * sizeof(float); };
  const auto layer_bytes = [&] { return filter_bytes() * static_cast<uint64_t>(channels); };
  while (channels > 4 && layer_bytes() * kLayers > bytes) channels /= 2;
  while (layer_bytes() * kMostLayers < bytes) channels *= 2;

  Net net("conv-stack");
  Value y = net.input("input", channels, input_size);
  const uint64_t layers = bytes / layer_bytes();
  const auto rest = static_cast<int64_t>((bytes % layer_bytes() + filter_bytes() / 2) / filter_bytes());
  for (uint64_t layer = 0; layer < layers + (rest > 0 ? 1 : 0); ++layer) {
    const std::string name = "conv" + std::to_string(layer);
    y = net.conv(name, y, layer < layers ? channels : rest, {.kernel = kernel, .bias = true});
    y = net.relu(name + ".relu", y);
  }
  net.output(y);
  return net.finish();
}

Graph one_tensor(uint64_t bytes, bool plain, int64_t input_size) {
  const int64_t kernel = plain ? 1 : 3;
  const double filters = static_cast<double>(bytes) / static_cast<double>(kernel * kernel) / sizeof(float);
  const auto channels = std::max<int64_t>(1, std::llround(std::sqrt(filters)));
  const auto rest = std::max<int64_t>(1, std::llround(filters / static_cast<double>(channels)));
  Net net("one-tensor");
  net.output(net.conv("conv", net.input("input", channels, input_size), rest, {.kernel = kernel, .bias = true}));
  return net.finish();
}

Graph matmul_stack(uint64_t bytes, bool /*plain*/, int64_t input_size) {
  constexpr uint64_t kLayers = 4;
  constexpr int64_t kWider = 4;
  int64_t width = 4096;  // matrices of 256 MiB
  const auto matrix_bytes = [&] { return static_cast<uint64_t>(width * width * kWider) * sizeof(float); };
  while (width > 4 && matrix_bytes() * kLayers > bytes) width /= 2;
  Net net("matmul-stack");
  Value y = net.input("input", 1, input_size, width);
  const uint64_t layers = bytes / matrix_bytes();
  const auto rest = static_cast<int64_t>(bytes % matrix_bytes() / sizeof(float));
  for (uint64_t layer = 0; layer < layers; ++layer)
    y = net.matmul("matmul" + std::to_string(layer), y, layer % 2 == 0 ? width * kWider : width);
  if (rest >= y.width) y = net.matmul("rest", y, rest / y.width);
  net.output(y);
  return net.finish();
}

Graph many_nodes(uint64_t nodes, int64_t input_size) {
  constexpr int64_t kChannels = 16;
  constexpr uint64_t kNodesOfBlock = 4;
  Net net("many-nodes");
  Value x = net.input("input", kChannels, input_size);
  for (uint64_t block = 0; block < nodes / kNodesOfBlock; ++block) {
    const std::string name = "block" + std::to_string(block);
    const Value y = net.conv(name + ".conv", x, kChannels, {.kernel = 1, .bias = true, .gain = 0.3F});
    x = net.add(name, x, net.multiply(name + ".silu", y, net.sigmoid(name + ".sigmoid", y)));
  }
  for (uint64_t i = 0; i < nodes % kNodesOfBlock; ++i) x = net.relu("relu" + std::to_string(i), x);
  net.output(x);
  return net.finish();
}

}  // namespace lowtide::bench
