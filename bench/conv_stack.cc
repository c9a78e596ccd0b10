// A plain stack of convolutions: nothing but weights, to measure how they are moved.
#include "bench/networks.h"

namespace lowtide::bench {

Graph conv_stack(uint64_t bytes, bool plain, int64_t input_size) {
  constexpr uint64_t kLayers = 8;         // at least so many, as far as the narrowest layer allows,
  constexpr uint64_t kMostLayers = 1024;  // and wider layers rather than more
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

}  // namespace lowtide::bench
