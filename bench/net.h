// SPDX-License-Identifier: Apache-2.0
// Builds the Graph of a convolutional network operator by operator, NCHW with batch 1, and follows the shapes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/graph.h"

namespace lowtide::bench {

/// A value of the graph: [1, channels, height, width].
struct Value {
  std::string name;
  int64_t channels;
  int64_t height;
  int64_t width;
};

struct ConvOptions {
  int64_t kernel = 3;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t groups = 1;
  bool bias = false;
  float gain = 1;  // beside He's standard deviation; below 1 it keeps sums of many branches in range
};

class Net {
 public:
  explicit Net(const std::string& name);

  Value input(const std::string& name, int64_t channels, int64_t size);
  Value input(const std::string& name, int64_t channels, int64_t height, int64_t width);
  void output(const Value& x);
  Graph finish();

  // Every operator is named by its first argument, and so are its output and (with a suffix) its weights.

  /// Convolution with symmetric pads: at stride 1 the spatial shape stays.
  Value conv(const std::string& name, const Value& x, int64_t channels, const ConvOptions& options = {});
  /// Transposed convolution 2x2 with stride 2 and a bias: doubles height and width.
  Value conv_transpose(const std::string& name, const Value& x, int64_t channels);
  /// Scale, bias, mean and variance differ for each channel.
  Value batch_norm(const std::string& name, const Value& x);
  Value relu(const std::string& name, const Value& x);
  Value conv_bn_relu(const std::string& name, const Value& x, int64_t channels, const ConvOptions& options = {});
  Value max_pool(const std::string& name, const Value& x, int64_t kernel, int64_t stride, int64_t pad);
  Value global_average_pool(const std::string& name, const Value& x);
  Value add(const std::string& name, const Value& a, const Value& b);
  Value multiply(const std::string& name, const Value& a, const Value& b);
  Value concat(const std::string& name, const std::vector<Value>& parts);
  Value sigmoid(const std::string& name, const Value& x);
  Value softmax(const std::string& name, const Value& x);
  /// Bilinear to the height and width of `like`, which are read off it by Shape, Slice and Concat as exporters do.
  Value resize(const std::string& name, const Value& x, const Value& like, const std::string& coordinates);
  /// [1, c*r*r, h, w] -> [1, c, h*r, w*r] as dense upsampling convolution orders it: channel (c, row, column).
  Value pixel_shuffle(const std::string& name, const Value& x, int64_t factor);

  /// A product with a matrix [x.width, outputs], along the last axis.
  Value matmul(const std::string& name, const Value& x, int64_t outputs);

 private:
  onnx::NodeProto& node(const std::string& op_type, const std::string& name, const std::vector<std::string>& inputs);
  std::string weight(const std::string& name, std::vector<int64_t> dims, float low, float high);
  std::string ints(const std::string& name, IntValues values);
  std::string shape_part(const std::string& name, const Value& x, int64_t from, int64_t to);

  Graph graph_;
};

}  // namespace lowtide::bench
