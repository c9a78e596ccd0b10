// SPDX-License-Identifier: Apache-2.0
// The options of core ops: TFLite's option tables as small structs, with TFLite's names and meanings. Kinds without a
// struct have no options. emit/builtins/ turns them into flatbuffer tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "stream/dtype.h"

namespace lowtide::core {

struct CustomOperator;
struct StatefulBuiltin;

using stream::DType;

enum class Padding : uint8_t { kSame = 0, kValid = 1 };
enum class Activation : uint8_t { kNone = 0, kRelu = 1, kReluN1To1 = 2, kRelu6 = 3 };

struct NoOptions {
  bool operator==(const NoOptions&) const = default;
};
// ADD, SUB, MUL, DIV
struct BinaryOptions {
  Activation activation = Activation::kNone;
  bool operator==(const BinaryOptions&) const = default;
};
// CONV_2D, and DEPTHWISE_CONV_2D with its depth_multiplier (0 for CONV_2D)
struct Conv2dOptions {
  Padding padding = Padding::kValid;
  int stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  Activation activation = Activation::kNone;
  int depth_multiplier = 0;
  bool operator==(const Conv2dOptions&) const = default;
};
// CONV_3D, CONV_3D_TRANSPOSE
struct Conv3dOptions {
  Padding padding = Padding::kValid;
  int stride_d = 1, stride_h = 1, stride_w = 1, dilation_d = 1, dilation_h = 1, dilation_w = 1;
  Activation activation = Activation::kNone;
  bool operator==(const Conv3dOptions&) const = default;
};
struct TransposeConvOptions {
  Padding padding = Padding::kValid;
  int stride_h = 1, stride_w = 1;
  Activation activation = Activation::kNone;
  bool operator==(const TransposeConvOptions&) const = default;
};
// AVERAGE_POOL_2D, MAX_POOL_2D
struct PoolOptions {
  Padding padding = Padding::kValid;
  int stride_h = 1, stride_w = 1, filter_h = 1, filter_w = 1;
  Activation activation = Activation::kNone;
  bool operator==(const PoolOptions&) const = default;
};
struct FullyConnectedOptions {
  Activation activation = Activation::kNone;
  bool keep_num_dims = false;
  bool operator==(const FullyConnectedOptions&) const = default;
};
struct BatchMatmulOptions {
  bool adj_x = false, adj_y = false;
  bool operator==(const BatchMatmulOptions&) const = default;
};
struct SoftmaxOptions {
  float beta = 1;
  bool operator==(const SoftmaxOptions&) const = default;
};
// CONCATENATION
struct ConcatOptions {
  int axis = 0;
  Activation activation = Activation::kNone;
  bool operator==(const ConcatOptions&) const = default;
};
// MEAN, SUM, REDUCE_*
struct ReduceOptions {
  bool keep_dims = false;
  bool operator==(const ReduceOptions&) const = default;
};
struct GatherOptions {
  int axis = 0, batch_dims = 0;
  bool operator==(const GatherOptions&) const = default;
};
// The output's dtype. ARG_MAX, ARG_MIN, SHAPE, UNIQUE: kInt32 or kInt64. CAST: any (the writer takes it from the value)
struct IndexOptions {
  DType dtype = DType::kInt64;
  bool operator==(const IndexOptions&) const = default;
};
// RESIZE_BILINEAR, RESIZE_NEAREST_NEIGHBOR
struct ResizeOptions {
  bool align_corners = false, half_pixel_centers = false;
  bool operator==(const ResizeOptions&) const = default;
};
struct StridedSliceOptions {
  int begin_mask = 0, end_mask = 0, shrink_axis_mask = 0;
  bool operator==(const StridedSliceOptions&) const = default;
};
// Whether such a mask has the bit of an axis.
inline bool has_bit(int mask, size_t axis) { return axis < 32 && (static_cast<uint32_t>(mask) >> axis & 1) != 0; }
struct SqueezeOptions {
  std::vector<int32_t> dims;
  bool operator==(const SqueezeOptions&) const = default;
};
// SPLIT, SPLIT_V, UNPACK (its num): how many outputs
struct SplitOptions {
  int num = 0;
  bool operator==(const SplitOptions&) const = default;
};
// PACK (values_count is the number of inputs), UNPACK
struct PackOptions {
  int axis = 0;
  bool operator==(const PackOptions&) const = default;
};
// LEAKY_RELU
struct LeakyReluOptions {
  float alpha = 0;
  bool operator==(const LeakyReluOptions&) const = default;
};
struct GeluOptions {
  bool approximate = false;
  bool operator==(const GeluOptions&) const = default;
};
struct CumsumOptions {
  bool exclusive = false, reverse = false;
  bool operator==(const CumsumOptions&) const = default;
};
// SPACE_TO_DEPTH, DEPTH_TO_SPACE
struct BlockOptions {
  int block_size = 1;
  bool operator==(const BlockOptions&) const = default;
};
struct MirrorPadOptions {
  bool symmetric = false;
  bool operator==(const MirrorPadOptions&) const = default;
};  // else REFLECT
struct OneHotOptions {
  int axis = -1;
  bool operator==(const OneHotOptions&) const = default;
};
// LOCAL_RESPONSE_NORMALIZATION: x / (bias + alpha * sum of squares over 2 * radius + 1 channels) ^ beta
struct LrnOptions {
  int radius = 5;
  float bias = 1, alpha = 1, beta = 0.5f;
  bool operator==(const LrnOptions&) const = default;
};
struct ReverseSequenceOptions {
  int sequence_axis = 0, batch_axis = 0;
  bool operator==(const ReverseSequenceOptions&) const = default;
};
// IF: then, else. WHILE: condition, body. Indices of graphs in the model.
struct SubgraphOptions {
  int first = 0, second = 0;
  bool operator==(const SubgraphOptions&) const = default;
};
// CHANNELS_FIRST: the schema's code of the image op, and its own options.
struct ChannelsFirstOptions {
  int16_t code = 0;
  std::variant<NoOptions, Conv2dOptions, Conv3dOptions, TransposeConvOptions, PoolOptions, ResizeOptions, BlockOptions,
               LrnOptions>
      options;
  bool operator==(const ChannelsFirstOptions&) const = default;
};

// CUSTOM (custom_operator.h). Two options are equal when they share what they describe.
struct CustomOptions {
  std::shared_ptr<const CustomOperator> described;
  bool operator==(const CustomOptions&) const = default;
};

// LSTM, RNN, SVDF and their sequences (stateful_builtin.h). Two options are equal when they share what they describe.
struct StatefulOptions {
  std::shared_ptr<const StatefulBuiltin> described;
  bool operator==(const StatefulOptions&) const = default;
};

using Options = std::variant<NoOptions, BinaryOptions, Conv2dOptions, Conv3dOptions, TransposeConvOptions, PoolOptions,
                             FullyConnectedOptions, BatchMatmulOptions, SoftmaxOptions, ConcatOptions, ReduceOptions,
                             GatherOptions, IndexOptions, ResizeOptions, StridedSliceOptions, SqueezeOptions,
                             SplitOptions, PackOptions, LeakyReluOptions, GeluOptions, CumsumOptions, BlockOptions,
                             MirrorPadOptions, OneHotOptions, LrnOptions, ReverseSequenceOptions, SubgraphOptions,
                             CustomOptions, StatefulOptions, ChannelsFirstOptions>;

}  // namespace lowtide::core
