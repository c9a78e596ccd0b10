// SPDX-License-Identifier: Apache-2.0
// U-Net, with padded convolutions so that the skip connections need no crop.
#include "bench/networks.h"
#include "stream/error.h"

namespace lowtide::bench {
namespace {

Value double_conv(Net& net, const std::string& name, const Value& x, int64_t channels) {
  return net.conv_bn_relu(name + ".2", net.conv_bn_relu(name + ".1", x, channels), channels);
}

}  // namespace

Graph unet(int64_t width, int64_t input_size) {
  constexpr int kLevels = 4;
  if (input_size % (1 << kLevels) != 0) {
    throw stream::Error(stream::Code::kUsage,
                        "the input size of a unet must be a multiple of " + std::to_string(1 << kLevels));
  }
  Net net("U-Net");
  Value y = double_conv(net, "down0", net.input("input", 3, input_size), width);
  std::vector<Value> skips;
  for (int level = 1; level <= kLevels; ++level) {
    const std::string name = "down" + std::to_string(level);
    skips.push_back(y);
    y = double_conv(net, name, net.max_pool(name + ".pool", y, 2, 2, 0), 2 * y.channels);
  }
  for (int level = kLevels - 1; level >= 0; --level) {
    const std::string name = "up" + std::to_string(level);
    const Value& skip = skips[static_cast<size_t>(level)];
    y = net.conv_transpose(name + ".up", y, skip.channels);
    y = double_conv(net, name, net.concat(name + ".concat", {skip, y}), skip.channels);
  }
  net.output(net.sigmoid("output", net.conv("logits", y, 1, {.kernel = 1, .bias = true, .gain = 0.2F})));
  return net.finish();
}

}  // namespace lowtide::bench
