// SPDX-License-Identifier: Apache-2.0
// The shapes of the generated networks. `width` is the number of channels after the first convolution, 64 in the
// published networks; everything but the classes follows it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "bench/graph.h"
#include "bench/net.h"

namespace lowtide::bench {

/// ResNet-101 with hybrid dilated convolutions and dense upsampling, for 19 classes:
/// data [1,3,n,n] -> seg_loss [1,19,4h,4w], where h, w are the backbone's (n/8, rounded up).
/// (Wang et al., Understanding Convolution for Semantic Segmentation, 2018.)
Graph duc(int64_t width, int64_t input_size);

/// DeepLabV3+ on ResNet-101 at output stride 16, for 21 classes: input [1,3,n,n] -> output [1,21,n,n].
/// (Chen et al., Encoder-Decoder with Atrous Separable Convolution, 2018.)
Graph deeplab(int64_t width, int64_t input_size);

/// U-Net with padded convolutions and batch normalisation: input [1,3,n,n] -> output [1,1,n,n]; n divides by 16.
/// (Ronneberger et al., 2015.)
Graph unet(int64_t width, int64_t input_size);

/// Convolutions one after the other, `bytes` of weights in all (to one output channel of the last one):
/// 3x3 kernels, or 1x1 when `plain`. Biases come on top.
Graph conv_stack(uint64_t bytes, bool plain, int64_t input_size);

/// One convolution of `bytes` of weights, with as many input as output channels.
Graph one_tensor(uint64_t bytes, bool plain, int64_t input_size);

/// Products with matrices one after the other, as in a transformer's feed-forward layers: to four times the width and
/// back. Their transposes are what TFLite stores. `plain` has no meaning here, and `input_size` rows go through.
Graph matmul_stack(uint64_t bytes, bool plain, int64_t input_size);

/// `nodes` nodes and half as many initializers: blocks of a 1x1 convolution, a SiLU of two nodes, and an addition that
/// skips the block. The weights of a convolution are just large enough to lie in an external file.
Graph many_nodes(uint64_t nodes, int64_t input_size);

/// How a ResNet-101 differs from network to network.
struct ResNetShape {
  int64_t width;
  std::array<int64_t, 4> strides;                 // of each stage
  std::array<std::vector<int64_t>, 4> dilations;  // of each stage's blocks, in turns
};

struct ResNetValues {
  Value low_level;  // after the first stage, 4 * width channels
  Value last;       // 32 * width channels
};

/// A 7x7 stem and the bottleneck stages of 3, 4, 23 and 3 blocks (He et al., 2016).
ResNetValues resnet101(Net& net, const Value& x, const ResNetShape& shape);

}  // namespace lowtide::bench
