// SPDX-License-Identifier: Apache-2.0
// ResNet101-DUC: output stride 8, the later stages dilated in the saw-tooth of hybrid dilated convolution,
// so that their taps leave no holes; four dilated classifiers summed; dense upsampling to half the input size.
#include "bench/networks.h"

namespace lowtide::bench {

Graph duc(int64_t width, int64_t input_size) {
  constexpr int64_t kClasses = 19;
  constexpr int64_t kUpsampling = 4;
  Net net("ResNet101-DUC");
  const Value data = net.input("data", 3, input_size);
  const ResNetShape shape = {
      .width = width, .strides = {1, 2, 1, 1}, .dilations = {{{1}, {1}, {1, 2, 5, 9}, {5, 9, 17}}}};
  const Value features = resnet101(net, data, shape).last;
  Value sum;
  for (const int64_t dilation : {6, 12, 18, 24}) {
    const std::string name = "aspp" + std::to_string(dilation);
    const Value branch = net.conv(name, features, kClasses * kUpsampling * kUpsampling,
                                  {.kernel = 3, .dilation = dilation, .bias = true, .gain = 0.03F});
    sum = sum.name.empty() ? branch : net.add(name + ".sum", sum, branch);
  }
  net.output(net.softmax("seg_loss", net.pixel_shuffle("upsampling", sum, kUpsampling)));
  return net.finish();
}

}  // namespace lowtide::bench
