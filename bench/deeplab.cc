// SPDX-License-Identifier: Apache-2.0
// DeepLabV3+: atrous spatial pyramid pooling with an image-level branch, and a decoder that joins it with the
// low-level features. The resizes read their sizes at run time, as networks exported from PyTorch do.
#include "bench/networks.h"

namespace lowtide::bench {
namespace {

Value pyramid(Net& net, const Value& x, int64_t channels) {
  std::vector<Value> branches = {net.conv_bn_relu("aspp.1", x, channels, {.kernel = 1})};
  for (const int64_t dilation : {6, 12, 18}) {
    branches.push_back(net.conv_bn_relu("aspp." + std::to_string(dilation), x, channels, {.dilation = dilation}));
  }
  const Value image = net.global_average_pool("aspp.image.pool", x);
  branches.push_back(net.resize("aspp.image.resize", net.conv_bn_relu("aspp.image", image, channels, {.kernel = 1}), x,
                                "align_corners"));
  return net.conv_bn_relu("aspp.project", net.concat("aspp.concat", branches), channels, {.kernel = 1});
}

Value separable(Net& net, const std::string& name, const Value& x, int64_t channels) {
  const Value depthwise = net.conv_bn_relu(name + ".depthwise", x, x.channels, {.groups = x.channels});
  return net.conv_bn_relu(name + ".pointwise", depthwise, channels, {.kernel = 1});
}

}  // namespace

Graph deeplab(int64_t width, int64_t input_size) {
  constexpr int64_t kClasses = 21;
  const int64_t channels = 4 * width;
  Net net("DeepLabV3+");
  const Value image = net.input("input", 3, input_size);
  const ResNetShape shape = {.width = width, .strides = {1, 2, 2, 1}, .dilations = {{{1}, {1}, {1}, {2, 4, 8}}}};
  const ResNetValues features = resnet101(net, image, shape);
  const Value context = pyramid(net, features.last, channels);
  const Value low_level = net.conv_bn_relu("decoder.low", features.low_level, 3 * width / 4, {.kernel = 1});
  Value y =
      net.concat("decoder.concat", {low_level, net.resize("decoder.resize", context, low_level, "pytorch_half_pixel")});
  y = net.conv_bn_relu("decoder.1", y, channels);
  y = net.conv_bn_relu("decoder.2", y, channels);
  y = separable(net, "decoder.3", y, channels);
  y = net.conv("classifier", y, kClasses, {.kernel = 1, .bias = true, .gain = 0.1F});
  net.output(net.resize("output", y, image, "pytorch_half_pixel"));
  return net.finish();
}

}  // namespace lowtide::bench
