// SPDX-License-Identifier: Apache-2.0
// Custom operators: those of TensorFlow's object detection and of MediaPipe, which have a form in ONNX, and any other,
// which stays what it is. Source of the options: LiteRT's tflite/core/c/builtin_op_data.h, whose structs MediaPipe's
// operators have as their bytes, and tflite/kernels/detection_postprocess.cc.
//
// The trap: their kernels set the shapes of their results, so the file need not know them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "layout/core/orders.h"
#include "layout/raise/detection.h"
#include "layout/raise/families.h"
#include "layout/raise/foreign_operator.h"
#include "layout/raise/import_graph.h"
#include "layout/raise/import_values.h"
#include "layout/raise/unpooling.h"
#include "stream/error.h"
#include "stream/printable.h"
#include "stream/tflite/flexbuffer.h"

namespace lowtide::layout {
namespace {

using stream::FlexValue;
using stream::Unsupported;

constexpr uint64_t kMostDetections = 1 << 20;

const std::vector<uint8_t>& option_bytes(const tfl::Operator& op) {
  static const std::vector<uint8_t> none;
  if (op.custom_bytes > 0 && !op.custom_options)
    throw Unsupported(fmt::format("its options have {} bytes, too many to be read", op.custom_bytes));
  return op.custom_options ? *op.custom_options : none;
}

// The flexbuffer map of TFLite_Detection_PostProcess. A missing entry is 0, as in LiteRT.
class DetectionOptions {
 public:
  explicit DetectionOptions(const std::vector<uint8_t>& bytes) : root_(stream::read_flexbuffer(bytes)) {
    if (!std::holds_alternative<FlexValue::Map>(root_.value)) malformed_model("its options are no map");
  }
  double number(const char* name, double otherwise = 0) const {
    for (const FlexValue::Entry& entry : std::get<FlexValue::Map>(root_.value)) {
      if (entry.key != name) continue;
      if (std::holds_alternative<std::monostate>(entry.value.value)) return otherwise;
      if (const auto* flag = std::get_if<bool>(&entry.value.value)) return *flag ? 1 : 0;
      if (const auto* value = std::get_if<int64_t>(&entry.value.value)) return static_cast<double>(*value);
      if (const auto* value = std::get_if<uint64_t>(&entry.value.value)) return static_cast<double>(*value);
      if (const auto* value = std::get_if<double>(&entry.value.value)) return *value;
      malformed_model(fmt::format("option {} is no number", name));
    }
    return otherwise;
  }
  int64_t count(const char* name, double otherwise = 0) const {
    const double value = number(name, otherwise);
    if (!(value >= 1) || value > static_cast<double>(kMostDetections) || value != std::floor(value))
      malformed_model(fmt::format("option {} is {}; it must be a number from 1 to {}", name, value, kMostDetections));
    return static_cast<int64_t>(value);
  }
  float real(const char* name) const {
    const auto value = static_cast<float>(number(name));
    if (!std::isfinite(value)) malformed_model(fmt::format("option {} is not finite", name));
    return value;
  }

 private:
  FlexValue root_;
};

// The first numbers of a C struct.
template <size_t kCount>
std::array<int32_t, kCount> struct_fields(const tfl::Operator& op) {
  const std::vector<uint8_t>& bytes = option_bytes(op);
  std::array<int32_t, kCount> out{};
  if (bytes.size() < sizeof(out))
    malformed_model(fmt::format("its options have {} bytes, fewer than {}", bytes.size(), sizeof(out)));
  std::memcpy(out.data(), bytes.data(), sizeof(out));
  return out;
}

core::Padding padding_of(int32_t field) {
  if (field != 1 && field != 2) malformed_model(fmt::format("the padding {} is neither SAME (1) nor VALID (2)", field));
  return field == 1 ? core::Padding::kSame : core::Padding::kValid;
}

int window_field(int32_t field, const char* name) {
  constexpr int32_t kMost = 1 << 20;
  if (field < 1 || field > kMost) malformed_model(fmt::format("{} is {}", name, field));
  return field;
}

core::PoolOptions placed_pool_fields(const tfl::Operator& op) {
  const auto [padding, stride_w, stride_h, filter_w, filter_h, activation] = struct_fields<6>(op);
  if (activation < 0 || activation > static_cast<int>(core::Activation::kRelu6))
    throw Unsupported(fmt::format("the activation {} is not supported", activation));
  return {.padding = padding_of(padding),
          .stride_h = window_field(stride_h, "the stride"),
          .stride_w = window_field(stride_w, "the stride"),
          .filter_h = window_field(filter_h, "the filter"),
          .filter_w = window_field(filter_w, "the filter"),
          .activation = static_cast<core::Activation>(activation)};
}

void need_static_shape(const core::Value& value, size_t rank) {
  if (value.shape.size() != rank)
    malformed_model(fmt::format("an input has rank {} in place of {}", value.shape.size(), rank));
  if (!stream::is_static(value.shape)) throw Unsupported("the shape of an input is known at run time only");
  if (std::find(value.shape.begin(), value.shape.end(), 0) != value.shape.end())
    throw Unsupported("an input has no elements");
}

const Perm& to_nchw() {
  static const Perm perm = {0, 3, 1, 2};
  return perm;
}

}  // namespace

void GraphImport::custom(SubgraphScope& scope, const tfl::Operator& op) {
  if (shared_.options.kept.named.contains(op.name)) return foreign(scope, op);
  try {
    if (known_custom(scope, op)) return;
  } catch (const Unsupported&) {
    if (!shared_.options.kept.all) throw;
  }
  if (!shared_.options.kept.all)
    throw Unsupported("it is a custom operator that has no form in ONNX",
                      fmt::format("with '--custom-ops allow' it becomes a node of the domain {}", kKeptDomain));
  foreign(scope, op);
}

bool GraphImport::known_custom(SubgraphScope& scope, const tfl::Operator& op) {
  if (op.name == "TFLite_Detection_PostProcess")
    detection(scope, op);
  else if (op.name == "Convolution2DTransposeBias")
    transpose_conv_with_bias(scope, op);
  else if (op.name == "MaxPoolingWithArgmax2D")
    pool_with_places(scope, op);
  else if (op.name == "MaxUnpooling2D")
    unpooling(scope, op);
  else
    return false;
  return true;
}

std::vector<ValueId> GraphImport::add_custom(std::shared_ptr<const RaisedOperator> described,
                                             std::vector<ValueId> inputs, std::span<const TensorType> types) {
  std::vector<ValueId> outputs;
  for (const TensorType& type : types) {
    outputs.push_back(graph_.add_value(type.dtype, type.shape));
    graph_.at(outputs.back()).producer = static_cast<core::OpId>(graph_.ops.size());
  }
  graph_.add_op({.kind = Kind::kCustom,
                 .inputs = std::move(inputs),
                 .outputs = outputs,
                 .options = core::CustomOptions{std::move(described)},
                 .origin = static_cast<uint32_t>(graph_.origins.size() - 1)});
  return outputs;
}

void GraphImport::define_output(SubgraphScope& scope, const tfl::Operator& op, size_t output, ValueId made) {
  const tfl::Tensor& tensor = scope.from.tensors[static_cast<size_t>(op.outputs[output])];
  need_numbers(tensor);
  if (tensor.dtype != DType::kFloat32)
    throw Unsupported(fmt::format("output '{}' is {}, but the operator's result is FLOAT32", tensor.name, tensor.type));
  graph_.at(made).name = tensor.name;
  scope.values[static_cast<size_t>(op.outputs[output])] = made;
}

std::vector<ValueId> GraphImport::float_inputs(SubgraphScope& scope, const tfl::Operator& op, size_t inputs,
                                               size_t outputs) {
  if (op.inputs.size() != inputs || op.outputs.size() != outputs)
    malformed_model(fmt::format("it has {} inputs and {} outputs in place of {} and {}", op.inputs.size(),
                                op.outputs.size(), inputs, outputs));
  std::vector<ValueId> out = all_inputs(scope, op);
  for (ValueId id : out)
    if (graph_.at(id).dtype != DType::kFloat32)
      throw Unsupported(fmt::format("an input is {}, and its kernel takes floats", dtype_name(graph_.at(id).dtype)));
  return out;
}

void GraphImport::detection(SubgraphScope& scope, const tfl::Operator& op) {
  if (op.inputs.size() != 3 || op.outputs.size() != 4)
    malformed_model(
        fmt::format("it has {} inputs and {} outputs in place of 3 and 4", op.inputs.size(), op.outputs.size()));
  const std::vector<ValueId> inputs = all_inputs(scope, op);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const core::Value& value = graph_.at(inputs[i]);
    need_static_shape(value, i < 2 ? 3 : 2);
    if (value.dtype != DType::kFloat32 && !value.quantization)
      throw Unsupported(fmt::format("input {} is {} without a scale", i, dtype_name(value.dtype)));
  }
  const Shape &encodings = graph_.at(inputs[0]).shape, &scores = graph_.at(inputs[1]).shape,
              &anchors = graph_.at(inputs[2]).shape;
  const DetectionOptions from(option_bytes(op));
  const auto made = std::make_shared<Detection>();
  made->name = op.name;
  made->raise = raise_detection;
  made->most_detections = from.count("max_detections");
  made->most_classes = from.count("max_classes_per_detection");
  made->is_regular = from.number("use_regular_nms") != 0;
  constexpr double kDetectionsOfClass = 100;
  if (made->is_regular) made->detections_of_class = from.count("detections_per_class", kDetectionsOfClass);
  made->least_score = from.real("nms_score_threshold");
  made->most_overlap = from.real("nms_iou_threshold");
  made->classes = from.count("num_classes");
  made->scale = {from.real("y_scale"), from.real("x_scale"), from.real("h_scale"), from.real("w_scale")};
  if (std::find(made->scale.begin(), made->scale.end(), 0.0F) != made->scale.end()) malformed_model("a scale is 0");
  if (!(made->most_overlap > 0 && made->most_overlap <= 1))
    malformed_model(fmt::format("nms_iou_threshold is {}, not above 0 and up to 1", made->most_overlap));
  if (made->most_detections * made->most_classes > static_cast<int64_t>(kMostDetections))
    malformed_model(fmt::format("{} detections of {} classes", made->most_detections, made->most_classes));
  if (encodings[0] != 1 || scores[0] != 1 || encodings[1] != scores[1] || encodings[1] != anchors[0] ||
      encodings[2] < 4 || anchors[1] != 4)
    malformed_model(fmt::format("encodings {}, scores {} and anchors {} do not fit", stream::to_string(encodings),
                                stream::to_string(scores), stream::to_string(anchors)));
  if (scores[2] != made->classes && scores[2] != made->classes + 1)
    malformed_model(fmt::format("{} scores do not fit {} classes", scores[2], made->classes));
  const core::Dim count = made->most_detections * made->most_classes;
  const TensorType types[] = {{DType::kFloat32, {1, count, 4}, std::nullopt},
                              {DType::kFloat32, {1, count}, std::nullopt},
                              {DType::kFloat32, {1, count}, std::nullopt},
                              {DType::kFloat32, {1}, std::nullopt}};
  const std::vector<ValueId> results = add_custom(made, inputs, types);
  for (size_t i = 0; i < results.size(); ++i) define_output(scope, op, i, results[i]);
}

// TRANSPOSE_CONV with a bias. The shape of its result is the one of which TRANSPOSE_CONV would derive the same pads.
void GraphImport::transpose_conv_with_bias(SubgraphScope& scope, const tfl::Operator& op) {
  const std::vector<ValueId> inputs = float_inputs(scope, op, 3, 1);
  for (size_t i = 0; i < 3; ++i) need_static_shape(graph_.at(inputs[i]), i < 2 ? 4 : 1);
  const auto [padding, stride_w, stride_h] = struct_fields<3>(op);
  core::TransposeConvOptions o{.padding = padding_of(padding),
                               .stride_h = window_field(stride_h, "the stride"),
                               .stride_w = window_field(stride_w, "the stride")};
  const Shape image = graph_.at(inputs[0]).shape, weights = graph_.at(inputs[1]).shape;
  const auto extent = [&](size_t axis, int64_t stride) {
    const int64_t whole = stride * (image[axis] - 1) + weights[axis];
    const bool is_same = o.padding == core::Padding::kSame;
    return whole - (is_same ? std::max<int64_t>(0, weights[axis] - (image[axis] - 1) % stride - 1) : 0);
  };
  const int64_t shape[] = {image[0], extent(1, o.stride_h), extent(2, o.stride_w), weights[0]};
  for (int64_t one : shape)
    if (one < 1 || one > std::numeric_limits<int32_t>::max())
      malformed_model(fmt::format("a result of {} elements along an axis", one));
  const ValueId made = add_float(Kind::kTransposeConv, {ints(shape), inputs[1], inputs[0], inputs[2]}, o);
  define_output(scope, op, 0, made);
}

void GraphImport::pool_with_places(SubgraphScope& scope, const tfl::Operator& op) {
  const std::vector<ValueId> inputs = float_inputs(scope, op, 1, 2);
  need_static_shape(graph_.at(inputs[0]), 4);
  const auto described = std::make_shared<PlacedPool>();
  described->name = op.name;
  described->raise = raise_pool_with_places;
  described->window = placed_pool_fields(op);
  const core::PoolOptions& o = described->window;
  const Shape image = graph_.at(inputs[0]).shape;
  const auto windows = [&](core::Dim size, int64_t filter, int64_t stride) {
    const int64_t made =
        o.padding == core::Padding::kSame ? (size + stride - 1) / stride : (size - filter) / stride + 1;
    if (made < 1 || (o.padding == core::Padding::kValid && size < filter))
      malformed_model(fmt::format("a window of {} does not fit {} elements", filter, size));
    return made;
  };
  const Shape result = {image[0], image[3], windows(image[1], o.filter_h, o.stride_h),
                        windows(image[2], o.filter_w, o.stride_w)};
  const auto origin = static_cast<uint32_t>(graph_.origins.size() - 1);
  const ValueId turned = permuted_value(graph_, inputs[0], to_nchw(), false, origin);
  const TensorType types[] = {{DType::kFloat32, result, std::nullopt}, {DType::kFloat32, result, std::nullopt}};
  const std::vector<ValueId> made = add_custom(described, {turned}, types);
  for (size_t i = 0; i < made.size(); ++i)
    define_output(scope, op, i, permuted_value(graph_, made[i], stream::inverse(to_nchw()), false, origin));
}

void GraphImport::unpooling(SubgraphScope& scope, const tfl::Operator& op) {
  const std::vector<ValueId> inputs = float_inputs(scope, op, 2, 1);
  for (ValueId id : inputs) need_static_shape(graph_.at(id), 4);
  const Shape image = graph_.at(inputs[0]).shape;
  if (graph_.at(inputs[1]).shape != image) malformed_model("data and places differ in shape");
  const auto described = std::make_shared<PlacedPool>();
  described->name = op.name;
  described->raise = raise_unpooling;
  described->window = placed_pool_fields(op);
  const core::PoolOptions& o = described->window;
  if (o.filter_h != o.stride_h || o.filter_w != o.stride_w)
    throw Unsupported(fmt::format("windows of {} x {} at steps of {} x {} overlap or leave gaps", o.filter_h,
                                  o.filter_w, o.stride_h, o.stride_w));
  const Shape result = {image[0], image[3], image[1] * o.filter_h, image[2] * o.filter_w};
  for (core::Dim dim : result)
    if (dim > std::numeric_limits<int32_t>::max()) malformed_model(fmt::format("a result of {} rows or columns", dim));
  const auto origin = static_cast<uint32_t>(graph_.origins.size() - 1);
  std::vector<ValueId> turned;
  turned.reserve(inputs.size());
  for (ValueId id : inputs) turned.push_back(permuted_value(graph_, id, to_nchw(), false, origin));
  const TensorType types[] = {{DType::kFloat32, result, std::nullopt}};
  const std::vector<ValueId> made = add_custom(described, turned, types);
  define_output(scope, op, 0, permuted_value(graph_, made[0], stream::inverse(to_nchw()), false, origin));
}

void GraphImport::foreign(SubgraphScope& scope, const tfl::Operator& op) {
  if (op.outputs.empty()) malformed_model("it has no output");
  const auto described = std::make_shared<ForeignOperator>();
  described->name = stream::printable(op.name);
  described->raise = raise_foreign;
  described->options = attributes_of_options(option_bytes(op));
  const std::vector<ValueId> inputs = values(scope, op.inputs);
  if (inputs.empty() || inputs[0] == kAbsent) throw Unsupported("a custom operator whose first input is absent");
  std::vector<TensorType> types;
  for (int32_t output : op.outputs) {
    const tfl::Tensor& tensor = scope.from.tensors[static_cast<size_t>(output)];
    need_numbers(tensor);
    Shape shape = tensor.shape;
    for (size_t axis = 0; axis < tensor.shape_signature.size(); ++axis)
      if (tensor.shape_signature[axis] < 0) shape[axis] = graph_.symbols.fresh("run_time_dim");
    types.push_back({tensor.dtype, std::move(shape), std::nullopt});
  }
  const std::vector<ValueId> made = add_custom(described, inputs, types);
  for (size_t i = 0; i < made.size(); ++i) {
    const tfl::Tensor& tensor = scope.from.tensors[static_cast<size_t>(op.outputs[i])];
    graph_.at(made[i]).name = tensor.name;
    set_scales(made[i], quantization_of(tensor));
    scope.values[static_cast<size_t>(op.outputs[i])] = made[i];
  }
}

}  // namespace lowtide::layout
