// SPDX-License-Identifier: Apache-2.0
#include "bench/net.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lowtide::bench {
namespace {

void set_ints(onnx::NodeProto& node, const std::string& name, const std::vector<int64_t>& values) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INTS);
  attribute.mutable_ints()->Assign(values.begin(), values.end());
}

void set_int(onnx::NodeProto& node, const std::string& name, int64_t value) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INT);
  attribute.set_i(value);
}

void set_float(onnx::NodeProto& node, const std::string& name, float value) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::FLOAT);
  attribute.set_f(value);
}

void set_string(onnx::NodeProto& node, const std::string& name, const std::string& value) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::STRING);
  attribute.set_s(value);
}

onnx::ValueInfoProto value_info(const Value& x) {
  onnx::ValueInfoProto info;
  info.set_name(x.name);
  onnx::TypeProto::Tensor& tensor = *info.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(onnx::TensorProto::FLOAT);
  for (const int64_t dim : {int64_t{1}, x.channels, x.height, x.width}) {
    tensor.mutable_shape()->add_dim()->set_dim_value(dim);
  }
  return info;
}

int64_t window_count(int64_t size, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad) {
  return (size + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
}

/// How many taps of a window lie inside the input, on average over the outputs of one axis. He's fan-in counts
/// these only: on a small input most taps of a dilated kernel see padding, and a deep stack would fade to nothing.
double taps_inside(int64_t size, int64_t outputs, const ConvOptions& o, int64_t pad) {
  int64_t inside = 0;
  for (int64_t out = 0; out < outputs; ++out) {
    for (int64_t tap = 0; tap < o.kernel; ++tap) {
      const int64_t at = out * o.stride + tap * o.dilation - pad;
      inside += at >= 0 && at < size;
    }
  }
  return static_cast<double>(inside) / static_cast<double>(outputs);
}

/// The half width of the uniform distribution with He's variance, 2 / fan_in.
float he_bound(double fan_in, float gain) { return static_cast<float>(gain * std::sqrt(3 * 2 / fan_in)); }

}  // namespace

uint64_t Initializer::bytes() const {
  uint64_t n = std::holds_alternative<UniformValues>(values) ? sizeof(float) : sizeof(int64_t);
  for (const int64_t dim : dims) n *= static_cast<uint64_t>(dim);
  return n;
}

uint64_t Graph::weight_bytes() const {
  uint64_t n = 0;
  for (const Initializer& x : initializers) n += std::holds_alternative<UniformValues>(x.values) ? x.bytes() : 0;
  return n;
}

Net::Net(const std::string& name) { graph_.head.set_name(name); }

Graph Net::finish() { return std::move(graph_); }

onnx::NodeProto& Net::node(const std::string& op_type, const std::string& name,
                           const std::vector<std::string>& inputs) {
  onnx::NodeProto& node = *graph_.head.add_node();
  node.set_op_type(op_type);
  node.set_name(name);
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(name);
  return node;
}

std::string Net::weight(const std::string& name, std::vector<int64_t> dims, float low, float high) {
  graph_.initializers.push_back({name, std::move(dims), UniformValues{low, high}});
  return name;
}

std::string Net::ints(const std::string& name, IntValues values) {
  const int64_t count = static_cast<int64_t>(values.size());
  graph_.initializers.push_back({name, {count}, std::move(values)});
  return name;
}

Value Net::input(const std::string& name, int64_t channels, int64_t size) { return input(name, channels, size, size); }

Value Net::input(const std::string& name, int64_t channels, int64_t height, int64_t width) {
  Value x{name, channels, height, width};
  *graph_.tail.add_input() = value_info(x);
  return x;
}

void Net::output(const Value& x) { *graph_.tail.add_output() = value_info(x); }

Value Net::conv(const std::string& name, const Value& x, int64_t channels, const ConvOptions& o) {
  const int64_t pad = o.dilation * (o.kernel - 1) / 2;
  Value y{name, channels, window_count(x.height, o.kernel, o.stride, o.dilation, pad),
          window_count(x.width, o.kernel, o.stride, o.dilation, pad)};
  const int64_t depth = x.channels / o.groups;
  const double fan_in =
      static_cast<double>(depth) * taps_inside(x.height, y.height, o, pad) * taps_inside(x.width, y.width, o, pad);
  const float bound = he_bound(fan_in, o.gain);
  std::vector<std::string> inputs = {x.name,
                                     weight(name + ".weight", {channels, depth, o.kernel, o.kernel}, -bound, bound)};
  if (o.bias) inputs.push_back(weight(name + ".bias", {channels}, -0.1F, 0.1F));
  onnx::NodeProto& conv = node("Conv", name, inputs);
  set_ints(conv, "dilations", {o.dilation, o.dilation});
  set_int(conv, "group", o.groups);
  set_ints(conv, "kernel_shape", {o.kernel, o.kernel});
  set_ints(conv, "pads", {pad, pad, pad, pad});
  set_ints(conv, "strides", {o.stride, o.stride});
  return y;
}

Value Net::matmul(const std::string& name, const Value& x, int64_t outputs) {
  const float bound = he_bound(static_cast<double>(x.width), 1);
  node("MatMul", name, {x.name, weight(name + ".weight", {x.width, outputs}, -bound, bound)});
  return {name, x.channels, x.height, outputs};
}

Value Net::conv_transpose(const std::string& name, const Value& x, int64_t channels) {
  const float bound = he_bound(static_cast<double>(x.channels), 1);  // windows do not overlap: one tap an output
  onnx::NodeProto& conv = node("ConvTranspose", name,
                               {x.name, weight(name + ".weight", {x.channels, channels, 2, 2}, -bound, bound),
                                weight(name + ".bias", {channels}, -0.1F, 0.1F)});
  set_ints(conv, "dilations", {1, 1});
  set_int(conv, "group", 1);
  set_ints(conv, "kernel_shape", {2, 2});
  set_ints(conv, "pads", {0, 0, 0, 0});
  set_ints(conv, "strides", {2, 2});
  return {name, channels, 2 * x.height, 2 * x.width};
}

Value Net::batch_norm(const std::string& name, const Value& x) {
  const std::vector<int64_t> dims = {x.channels};
  onnx::NodeProto& norm =
      node("BatchNormalization", name,
           {x.name, weight(name + ".weight", dims, 0.5F, 1.5F), weight(name + ".bias", dims, -0.3F, 0.3F),
            weight(name + ".running_mean", dims, -0.4F, 0.4F), weight(name + ".running_var", dims, 0.5F, 1.5F)});
  set_float(norm, "epsilon", 1e-5F);
  set_float(norm, "momentum", 0.9F);
  return {name, x.channels, x.height, x.width};
}

Value Net::relu(const std::string& name, const Value& x) {
  node("Relu", name, {x.name});
  return {name, x.channels, x.height, x.width};
}

Value Net::conv_bn_relu(const std::string& name, const Value& x, int64_t channels, const ConvOptions& options) {
  return relu(name + ".relu", batch_norm(name + ".bn", conv(name + ".conv", x, channels, options)));
}

Value Net::max_pool(const std::string& name, const Value& x, int64_t kernel, int64_t stride, int64_t pad) {
  onnx::NodeProto& pool = node("MaxPool", name, {x.name});
  set_ints(pool, "kernel_shape", {kernel, kernel});
  set_ints(pool, "pads", {pad, pad, pad, pad});
  set_ints(pool, "strides", {stride, stride});
  return {name, x.channels, window_count(x.height, kernel, stride, 1, pad),
          window_count(x.width, kernel, stride, 1, pad)};
}

Value Net::global_average_pool(const std::string& name, const Value& x) {
  node("GlobalAveragePool", name, {x.name});
  return {name, x.channels, 1, 1};
}

Value Net::add(const std::string& name, const Value& a, const Value& b) {
  node("Add", name, {a.name, b.name});
  return {name, a.channels, a.height, a.width};
}

Value Net::multiply(const std::string& name, const Value& a, const Value& b) {
  node("Mul", name, {a.name, b.name});
  return {name, a.channels, a.height, a.width};
}

Value Net::concat(const std::string& name, const std::vector<Value>& parts) {
  Value y = parts.front();
  y.name = name;
  y.channels = 0;
  std::vector<std::string> inputs;
  for (const Value& part : parts) {
    inputs.push_back(part.name);
    y.channels += part.channels;
  }
  set_int(node("Concat", name, inputs), "axis", 1);
  return y;
}

Value Net::sigmoid(const std::string& name, const Value& x) {
  node("Sigmoid", name, {x.name});
  return {name, x.channels, x.height, x.width};
}

Value Net::softmax(const std::string& name, const Value& x) {
  set_int(node("Softmax", name, {x.name}), "axis", 1);
  return {name, x.channels, x.height, x.width};
}

std::string Net::shape_part(const std::string& name, const Value& x, int64_t from, int64_t to) {
  node("Shape", name + ".shape", {x.name});
  node("Slice", name,
       {name + ".shape", ints(name + ".from", {from}), ints(name + ".to", {to}), ints(name + ".axes", {0})});
  return name;
}

Value Net::resize(const std::string& name, const Value& x, const Value& like, const std::string& coordinates) {
  const std::string front = shape_part(name + ".channels", x, 0, 2);
  const std::string back = shape_part(name + ".space", like, 2, 4);
  set_int(node("Concat", name + ".sizes", {front, back}), "axis", 0);
  onnx::NodeProto& resize = node("Resize", name, {x.name, "", "", name + ".sizes"});
  set_string(resize, "coordinate_transformation_mode", coordinates);
  set_string(resize, "mode", "linear");
  return {name, x.channels, like.height, like.width};
}

Value Net::pixel_shuffle(const std::string& name, const Value& x, int64_t factor) {
  Value y{name, x.channels / (factor * factor), x.height * factor, x.width * factor};
  node("Reshape", name + ".split",
       {x.name, ints(name + ".split_shape", {1, y.channels, factor, factor, x.height, x.width})});
  set_ints(node("Transpose", name + ".weave", {name + ".split"}), "perm", {0, 1, 4, 2, 5, 3});
  node("Reshape", name, {name + ".weave", ints(name + ".shape", {1, y.channels, y.height, y.width})});
  return y;
}

}  // namespace lowtide::bench
