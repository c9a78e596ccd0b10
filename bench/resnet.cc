// SPDX-License-Identifier: Apache-2.0
// The ResNet-101 backbone that the DUC and DeepLab networks share.
#include "bench/networks.h"

namespace lowtide::bench {
namespace {

// Without training, 33 residual branches of full strength would double the activations 33 times.
constexpr float kBranchGain = 0.2F;

Value bottleneck(Net& net, const std::string& name, const Value& x, int64_t channels, int64_t stride,
                 int64_t dilation) {
  Value y = net.conv_bn_relu(name + ".1", x, channels / 4, {.kernel = 1});
  y = net.conv_bn_relu(name + ".2", y, channels / 4, {.kernel = 3, .stride = stride, .dilation = dilation});
  y = net.batch_norm(name + ".3.bn", net.conv(name + ".3.conv", y, channels, {.kernel = 1, .gain = kBranchGain}));
  Value shortcut = x;
  if (x.channels != channels || stride != 1) {
    shortcut = net.batch_norm(name + ".shortcut.bn",
                              net.conv(name + ".shortcut.conv", x, channels, {.kernel = 1, .stride = stride}));
  }
  return net.relu(name + ".relu", net.add(name + ".add", y, shortcut));
}

}  // namespace

ResNetValues resnet101(Net& net, const Value& x, const ResNetShape& shape) {
  constexpr std::array<int, 4> kBlocks = {3, 4, 23, 3};
  Value y = net.conv_bn_relu("stem", x, shape.width, {.kernel = 7, .stride = 2});
  y = net.max_pool("stem.pool", y, 3, 2, 1);
  Value low_level = y;
  int64_t channels = 4 * shape.width;
  for (size_t stage = 0; stage < kBlocks.size(); ++stage, channels *= 2) {
    const std::vector<int64_t>& dilations = shape.dilations[stage];
    for (int block = 0; block < kBlocks[stage]; ++block) {
      const std::string name = "stage" + std::to_string(stage + 1) + "." + std::to_string(block);
      const int64_t stride = block == 0 ? shape.strides[stage] : 1;
      y = bottleneck(net, name, y, channels, stride, dilations[static_cast<size_t>(block) % dilations.size()]);
    }
    if (stage == 0) low_level = y;
  }
  return {low_level, y};
}

}  // namespace lowtide::bench
