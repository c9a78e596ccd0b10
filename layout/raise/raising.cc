// SPDX-License-Identifier: Apache-2.0
#include "layout/raise/raising.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "layout/core/builtin.h"
#include "layout/raise/known_at_run_time.h"
#include "stream/error.h"
#include "stream/printable.h"

namespace lowtide::layout {
namespace {

namespace recipe = stream::recipe;

struct Limits {
  int64_t low, high;
};
Limits limits_of(DType dtype) {
  const int bits = stream::bits(dtype);
  if (stream::is_signed_int(dtype)) return {-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1};
  return {0, (int64_t{1} << bits) - 1};
}

// Kernels that compute with narrow integers themselves, where they have no scale. All others multiply by it, and
// without one they give any number.
bool computes_without_scale(Kind kind, DType dtype) {
  switch (kind) {
    case Kind::kNeg:
    case Kind::kFloorMod:
      return true;
    case Kind::kAdd:
    case Kind::kMul:
    case Kind::kAbs:
      return dtype == DType::kInt16;
    default: {
      const core::Numbers numbers = core::builtin(kind).numbers;
      return numbers == core::Numbers::kMoved || numbers == core::Numbers::kOrdered;
    }
  }
}

// Of integers of so few bits most kernels compute with the scale.
bool lacks_scale(const Value& value) {
  constexpr int kNarrow = 16;
  return stream::is_integer(value.dtype) && stream::bits(value.dtype) <= kNarrow && !value.quantization;
}

// Kernels that take the data's integers for those of the result, whatever its scale says. Measured with ai-edge-litert
// 2.3.0 (BUILTIN_WITHOUT_DEFAULT_DELEGATES); UNPACK, PACK, EXPAND_DIMS, FILL, MIRROR_PAD and REDUCE_MAX refuse two
// scales.
bool ignores_scale_of_data(Kind kind, DType dtype) {
  switch (kind) {
    case Kind::kReshape:
    case Kind::kSqueeze:
    case Kind::kTranspose:
    case Kind::kSplit:
    case Kind::kSplitV:
    case Kind::kSlice:
    case Kind::kStridedSlice:
    case Kind::kReverseV2:
    case Kind::kReverseSequence:
    case Kind::kPad:
    case Kind::kGather:
    case Kind::kGatherNd:
    case Kind::kEmbeddingLookup:
    case Kind::kOneHot:
    case Kind::kDynamicUpdateSlice:
    case Kind::kTile:
    case Kind::kBroadcastTo:
    case Kind::kSelectV2:
    case Kind::kSpaceToDepth:
    case Kind::kDepthToSpace:
    case Kind::kResizeBilinear:
    case Kind::kResizeNearestNeighbor:
    case Kind::kAveragePool2d:
    case Kind::kMaxPool2d:
    case Kind::kMaximum:
    case Kind::kMinimum:
    case Kind::kTopkV2:
      return true;
    case Kind::kConcatenation:
      return dtype == DType::kInt16;
    default:
      return false;
  }
}

// The next type that ONNX Runtime has kernels for: bf16 and integers of fewer than 8 bits it converts, and has nearly
// no other kernels for them.
DType wider_type(DType dtype) {
  constexpr int kByte = 8;
  if (dtype == DType::kBFloat16) return DType::kFloat32;
  return stream::is_integer(dtype) && stream::bits(dtype) < kByte ? DType::kInt8 : dtype;
}

// Whether ONNX Runtime has kernels for the nodes of an op that moves this type. Measured with ONNX Runtime 1.31.
bool has_moving_kernels(Kind kind, DType dtype) {
  if (wider_type(dtype) == dtype) return true;
  if (stream::is_integer(dtype)) return kind == Kind::kTranspose;
  switch (kind) {
    case Kind::kReshape:
    case Kind::kSqueeze:
    case Kind::kExpandDims:
    case Kind::kTranspose:
    case Kind::kPack:
    case Kind::kUnpack:
    case Kind::kConcatenation:
    case Kind::kSplit:
    case Kind::kSplitV:
    case Kind::kSlice:
    case Kind::kStridedSlice:
    case Kind::kReverseV2:
    case Kind::kDynamicUpdateSlice:
    case Kind::kGather:
    case Kind::kGatherNd:
    case Kind::kEmbeddingLookup:
      return true;
    default:
      return false;
  }
}

}  // namespace

DType real_type(const Value& value) { return value.quantization ? DType::kFloat32 : wider_type(value.dtype); }

onnx::Attribute attribute(std::string_view name, int64_t value) {
  onnx::Attribute out;
  out.name = name;
  out.type = onnx::Attribute::Type::kInt;
  out.i = value;
  return out;
}
onnx::Attribute attribute(std::string_view name, float value) {
  onnx::Attribute out;
  out.name = name;
  out.type = onnx::Attribute::Type::kFloat;
  out.f = value;
  return out;
}
onnx::Attribute attribute(std::string_view name, std::string_view value) {
  onnx::Attribute out;
  out.name = name;
  out.type = onnx::Attribute::Type::kString;
  out.s = value;
  return out;
}
onnx::Attribute attribute(std::string_view name, std::vector<int64_t> values) {
  onnx::Attribute out;
  out.name = name;
  out.type = onnx::Attribute::Type::kInts;
  out.ints = std::move(values);
  return out;
}

int64_t onnx_type(DType dtype) {
  constexpr int64_t kMost = 64;
  for (int64_t number = 1; number < kMost; ++number)
    if (stream::onnx_dtype(number) == dtype) return number;
  throw stream::Unsupported(fmt::format("ONNX has no type {}", stream::dtype_name(dtype)));
}

OnnxGraph::OnnxGraph(RaisedModel& raised)
    : model(raised),
      graph(*raised.from.graphs[0]),
      out(raised.main),
      opset(raised.opset),
      stored_(graph.values.size()),
      real_(graph.values.size()) {
  // The names of inputs and outputs come first: no other tensor may take them.
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    stored_[static_cast<size_t>(graph.inputs[i])] = graph.input_names[i] = unique(graph.input_names[i]);
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    graph.output_names[i] = unique(graph.output_names[i]);
    std::string& name = stored_[static_cast<size_t>(graph.outputs[i])];
    const Value& value = graph.at(graph.outputs[i]);
    if (name.empty() && value.producer >= 0) name = graph.output_names[i];
  }
}

OnnxGraph::OnnxGraph(RaisedModel& raised, core::Graph& core_graph, onnx::Graph& made,
                     std::span<const std::string> inputs)
    : model(raised),
      graph(core_graph),
      out(made),
      opset(raised.opset),
      stored_(graph.values.size()),
      real_(graph.values.size()) {
  for (size_t i = 0; i < inputs.size(); ++i) stored_[static_cast<size_t>(graph.inputs[i])] = inputs[i];
}

// Names of a TFLite file are any bytes, ONNX's are text.
std::string OnnxGraph::unique(const std::string& name) { return model.names.unique(stream::printable(name)); }

std::string OnnxGraph::fresh(std::string_view hint) { return unique(fmt::format("{}_{}", hint, model.fresh++)); }

// Shape inference reads shapes and axes in the graph that uses them, so those of an inner graph stay there. A large
// constant is in the main graph, once: the condition of a loop is written twice.
std::string OnnxGraph::initializer(stream::RecipeRef data, std::string_view hint) {
  constexpr uint64_t kMostInner = 1024;
  const bool is_large = data->bytes() > kMostInner;
  const stream::Recipe* const key = data.get();
  if (is_large)
    if (const auto known = model.large.find(key); known != model.large.end()) return known->second;
  onnx::Tensor tensor;
  tensor.name = unique(std::string(hint));
  tensor.dtype = data->dtype;
  tensor.dims = data->dims;
  tensor.data = std::move(data);
  std::vector<onnx::Tensor>& list = (is_large ? model.main : out).initializers;
  list.push_back(std::move(tensor));
  if (is_large) model.large.emplace(key, list.back().name);
  return list.back().name;
}

std::string OnnxGraph::stored(ValueId id) {
  std::string& name = stored_[static_cast<size_t>(id)];
  if (!name.empty()) return name;
  const Value& value = graph.at(id);
  const std::string hint = value.name.empty() ? "t" : value.name;
  return name = value.is_constant() ? initializer(value.constant, hint) : unique(hint);
}

std::string OnnxGraph::real(ValueId id) {
  const Value& value = graph.at(id);
  const DType type = real_type(value);
  if (type == value.dtype) return stored(id);
  std::string& name = real_[static_cast<size_t>(id)];
  if (!name.empty()) return name;
  name = value.quantization ? dequantized(stored(id), *value.quantization, value.dtype, false)
                            : node("Cast", {stored(id)}, {attribute("to", onnx_type(type))});
  kept_ = out.nodes.size();
  return name;
}

OnnxGraph::Parameters OnnxGraph::parameters(const core::Quantization& quantization, DType dtype, bool has_zero_point) {
  std::vector<int64_t> zeros = quantization.zero_point;
  if (zeros.empty()) zeros.assign(quantization.scale.size(), 0);
  auto [it, is_new] = parameters_.try_emplace(
      {quantization.scale, {has_zero_point ? zeros : std::vector<int64_t>(), static_cast<int>(dtype)}});
  if (!is_new) return it->second;
  Shape shape;
  if (quantization.scale.size() > 1) shape = {static_cast<core::Dim>(quantization.scale.size())};
  it->second.scale = initializer(recipe::floats(quantization.scale, shape), "scale");
  if (has_zero_point) it->second.zero_point = initializer(recipe::ints(zeros, dtype, shape), "zero_point");
  return it->second;
}

std::string OnnxGraph::dequantized(const std::string& name, const core::Quantization& quantization, DType dtype,
                                   bool is_bias) {
  const Parameters made = parameters(quantization, dtype, !is_bias);
  Names inputs = {name, made.scale};
  if (!is_bias) inputs.push_back(made.zero_point);
  Attributes attributes;
  if (quantization.scale.size() > 1) attributes.push_back(attribute("axis", int64_t{quantization.axis}));
  return node("DequantizeLinear", std::move(inputs), std::move(attributes));
}

std::string OnnxGraph::quantized(const std::string& name, const core::Quantization& quantization, DType dtype) {
  for (float scale : quantization.scale)
    if (!(scale > 0)) throw stream::Unsupported("a result with the scale 0 has no form in ONNX");
  const Parameters made = parameters(quantization, dtype, true);
  Attributes attributes;
  if (quantization.scale.size() > 1) attributes.push_back(attribute("axis", int64_t{quantization.axis}));
  return node("QuantizeLinear", {name, made.scale, made.zero_point}, std::move(attributes));
}

std::string OnnxGraph::as_stored(const std::string& name, const Value& value) {
  if (value.quantization) return quantized(name, *value.quantization, value.dtype);
  return real_type(value) == value.dtype ? name : node("Cast", {name}, {attribute("to", onnx_type(value.dtype))});
}

Names OnnxGraph::nodes(std::string_view type, Names inputs, size_t outputs, Attributes attributes) {
  onnx::Node made;
  made.op_type = type;
  made.name = unique(fmt::format("{}_{}", type, out.nodes.size()));
  made.inputs = std::move(inputs);
  for (size_t i = 0; i < outputs; ++i) made.outputs.push_back(fresh(type));
  made.attributes = std::move(attributes);
  out.nodes.push_back(std::move(made));
  return out.nodes.back().outputs;
}

std::string OnnxGraph::node(std::string_view type, Names inputs, Attributes attributes) {
  return nodes(type, std::move(inputs), 1, std::move(attributes))[0];
}

void OnnxGraph::define(ValueId id, const std::string& name) {
  const std::string wanted = stored(id);
  if (!out.nodes.empty())
    for (std::string& output : out.nodes.back().outputs)
      if (output == name && out.nodes.size() > kept_) {
        output = wanted;
        return;
      }
  onnx::Node made;
  made.op_type = "Identity";
  made.name = unique(fmt::format("Identity_{}", out.nodes.size()));
  made.inputs = {name};
  made.outputs = {wanted};
  out.nodes.push_back(std::move(made));
}

// ---- one op ----

void Raising::unsupported(std::string reason, std::string hint) const {
  throw stream::Unsupported(std::move(reason), std::move(hint));
}

std::vector<int64_t> Raising::need_ints(size_t i, std::string_view what) const {
  auto known = has(i) ? ints(i) : std::nullopt;
  if (!known) throw known_at_run_time(what, onnx.model.from);
  return *known;
}

int64_t Raising::need_static(core::Dim dim, std::string_view what) const {
  if (!stream::is_static(dim)) throw known_at_run_time(what, onnx.model.from);
  return dim;
}

std::string Raising::real(size_t i) {
  const Value& value = in(i);
  if (reads_by_result(i)) return real_by_result(i);
  if (lacks_scale(value) && !computes_without_scale(kind(), value.dtype))
    unsupported(
        fmt::format("input {} is {} without a scale, by which LiteRT's kernel multiplies", i, dtype_name(value.dtype)));
  return onnx.real(op.inputs[i]);
}

bool Raising::reads_by_result(size_t i) const {
  const Value &value = in(i), &result = out();
  return core::builtin(kind()).inputs[i] == core::Role::kData && value.dtype == result.dtype &&
         value.quantization != result.quantization && ignores_scale_of_data(kind(), value.dtype);
}

std::string Raising::real_by_result(size_t i) {
  const Value& result = out();
  if (!result.quantization) unsupported("the data have a scale, and the result has none");
  if (result.quantization->scale.size() > 1) unsupported("a result with a scale for each index of an axis");
  return onnx.dequantized(stored(i), *result.quantization, result.dtype, false);
}

const std::vector<int64_t>* Raising::joined_pads() const {
  const JoinedPads& all = onnx.model.joined_pads.at(&graph);
  const auto found = all.find(op.outputs[0]);
  return found == all.end() ? nullptr : &found->second;
}

bool Raising::same_scale(size_t a, size_t b) const { return in(a).quantization == in(b).quantization; }

bool Raising::moves_stored() const {
  const bool is_moved = ignores_scale_of_data(kind(), out().dtype);
  const core::Roles& roles = core::builtin(kind()).inputs;
  const Value& result = graph.at(op.outputs[0]);
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (op.inputs[i] == core::kAbsent || roles[i] != core::Role::kData) continue;
    const Value& value = graph.at(op.inputs[i]);
    if (value.dtype != result.dtype || (!is_moved && value.quantization != result.quantization)) return false;
  }
  for (ValueId id : op.outputs)
    if (graph.at(id).dtype != result.dtype || (!is_moved && graph.at(id).quantization != result.quantization))
      return false;
  // A scale for each index of an axis does not survive a move of numbers.
  return is_moved || !result.quantization || result.quantization->scale.size() == 1;
}

std::string Raising::data(size_t i) {
  if (!moves_stored()) return real(i);
  return has_moving_kernels(kind(), in(i).dtype) ? stored(i) : cast(stored(i), wider_type(in(i).dtype));
}

void Raising::give_data(const std::string& name, size_t output) {
  if (!moves_stored()) return give(name, output);
  const DType dtype = out(output).dtype;
  give_stored(has_moving_kernels(kind(), dtype) ? name : cast(name, dtype), output);
}

bool Raising::moves_stored(std::span<const DType> types) const {
  return moves_stored() && std::find(types.begin(), types.end(), out().dtype) != types.end();
}

std::string Raising::int64_input(size_t i) {
  const Value& value = in(i);
  if (value.dtype == DType::kInt64) return stored(i);
  if (value.is_constant()) return onnx.initializer(recipe::cast(value.constant, DType::kInt64), value.name);
  return cast(stored(i), DType::kInt64);
}

std::string Raising::int64_list(std::span<const int64_t> values) {
  return onnx.initializer(recipe::ints(values, DType::kInt64, {static_cast<core::Dim>(values.size())}), "list");
}

std::string Raising::scalar(double value, DType dtype) {
  return onnx.initializer(recipe::fill_value(value, dtype, {}), "constant");
}

std::string Raising::extent(ValueId id, int64_t axis) {
  return node("Shape", {onnx.stored(id)}, {attribute("start", axis), attribute("end", axis + 1)});
}

std::string Raising::multiple_of_extent(core::Dim dim) {
  for (const ValueId input : op.inputs) {
    if (input == core::kAbsent) continue;
    const Shape& shape = graph.at(input).shape;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (!core::is_symbol(shape[axis])) continue;
      const std::optional<core::Dim> times = graph.symbols.exact_div(dim, shape[axis]);
      if (times && stream::is_static(*times))
        return node("Mul", {extent(input, static_cast<int64_t>(axis)), int64_list({*times})});
    }
  }
  return {};
}

std::string Raising::extent_of_input(core::Dim dim) {
  for (const ValueId input : op.inputs) {
    if (input == core::kAbsent) continue;
    const Shape& shape = graph.at(input).shape;
    const auto axis = std::find(shape.begin(), shape.end(), dim) - shape.begin();
    if (axis < static_cast<int64_t>(shape.size())) return extent(input, axis);
  }
  return {};
}

// By dimension; empty: it is known, or the one that a Reshape finds by itself.
Names Raising::extents_of_inputs(const Shape& shape) {
  Names out;
  int missing = 0;
  for (const core::Dim dim : shape) {
    out.push_back(core::is_symbol(dim) ? extent_of_input(dim) : "");
    if (core::is_symbol(dim) && out.back().empty()) ++missing;
  }
  for (size_t i = 0; i < shape.size() && missing > 1; ++i) {
    if (!core::is_symbol(shape[i]) || !out[i].empty()) continue;
    out[i] = multiple_of_extent(shape[i]);
    if (!out[i].empty()) --missing;
  }
  if (missing > 1) throw known_at_run_time("several dimensions of a shape", onnx.model.from);
  return out;
}

// A Reshape finds one unknown dimension by itself. Further ones are read from the inputs' shapes.
std::string Raising::reshape_target(const Shape& shape, std::optional<size_t> computed_by) {
  Shape target = shape;
  int unknown = 0;
  for (core::Dim& dim : target)
    if (core::is_symbol(dim)) {
      dim = -1;
      ++unknown;
    }
  if (unknown <= 1) return int64_list(target);
  if (computed_by) return int64_input(*computed_by);
  const Names extents = extents_of_inputs(shape);
  Names parts;
  std::vector<int64_t> known;
  const auto end_of_known = [&] {
    if (!known.empty()) parts.push_back(int64_list(known));
    known.clear();
  };
  for (size_t i = 0; i < shape.size(); ++i) {
    if (extents[i].empty()) {
      known.push_back(core::is_symbol(shape[i]) ? -1 : shape[i]);
      continue;
    }
    end_of_known();
    parts.push_back(extents[i]);
  }
  end_of_known();
  return node("Concat", std::move(parts), {attribute("axis", int64_t{0})});
}

std::string Raising::reshaped(const std::string& name, const Shape& shape, std::optional<size_t> computed_by) {
  // A 0 that is computed is one, too.
  const bool is_computed = std::count_if(shape.begin(), shape.end(), core::is_symbol) > 1;
  const bool has_zero = is_computed || std::find(shape.begin(), shape.end(), 0) != shape.end();
  Attributes attributes;
  if (has_zero) attributes.push_back(attribute("allowzero", int64_t{1}));
  return node("Reshape", {name, reshape_target(shape, computed_by)}, std::move(attributes));
}

std::string Raising::larger(const std::string& a, const std::string& b, DType dtype) {
  if (dtype != DType::kInt64) return node("Max", {a, b});
  return node("Where", {node("Greater", {a, b}), a, b});
}

std::string Raising::smaller(const std::string& a, const std::string& b, DType dtype) {
  if (dtype != DType::kInt64) return node("Min", {a, b});
  return node("Where", {node("Less", {a, b}), a, b});
}

std::string Raising::cast(const std::string& name, DType to) {
  return node("Cast", {name}, {attribute("to", onnx_type(to))});
}

void Raising::give(const std::string& name, size_t output) {
  onnx.define(op.outputs[output], onnx.as_stored(name, graph.at(op.outputs[output])));
}

// Whether the integers of the result end before these limits do.
bool Raising::clamps_anyway(double low, double high) const {
  const Value& value = out();
  if (!value.quantization || value.quantization->scale.size() != 1) return false;
  const double scale = value.quantization->scale[0];
  const double zero =
      value.quantization->zero_point.empty() ? 0.0 : static_cast<double>(value.quantization->zero_point[0]);
  const Limits limits = limits_of(value.dtype);
  if (!(scale > 0)) return false;
  return std::nearbyint(low / scale) + zero <= static_cast<double>(limits.low) &&
         std::nearbyint(high / scale) + zero >= static_cast<double>(limits.high);
}

std::string Raising::activated(const std::string& name, Activation activation) {
  constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  double low = 0, high = kNoLimit;
  switch (activation) {
    case Activation::kNone:
      return name;
    case Activation::kRelu:
      break;
    case Activation::kReluN1To1:
      low = -1, high = 1;
      break;
    case Activation::kRelu6:
      high = 6;
      break;
  }
  if (lacks_scale(out()))
    unsupported(fmt::format("an activation of {} without a scale, by which LiteRT's kernel multiplies its limits",
                            dtype_name(out().dtype)));
  if (clamps_anyway(low, high)) return name;
  // ONNX Runtime's Relu has no integers of 64 bits, and ONNX's none without signs.
  const bool is_integer = stream::is_integer(out().dtype) && !out().quantization;
  if (activation == Activation::kRelu && is_integer) return larger(name, scalar(0, out().dtype), out().dtype);
  if (activation == Activation::kRelu) return node("Relu", {name});
  const DType dtype = real_type(out());
  if (is_integer && !stream::is_signed_int(dtype)) low = 0;
  const std::string least = scalar(low, dtype), most = scalar(high, dtype);
  if (dtype == DType::kInt64) return smaller(larger(name, least, dtype), most, dtype);
  return node("Clip", {name, least, most});
}

void Raising::give_activated(const std::string& name, Activation activation) { give(activated(name, activation)); }

void Raising::give_activated_as(const std::string& name, Activation activation, int64_t units) {
  const std::string numbers = activated(name, activation);
  const Value& value = out();
  const bool fits = value.rank() == 2 && value.shape[1] == units;
  if (fits) return give(numbers);
  give_stored(reshaped(onnx.as_stored(numbers, value), value.shape));
}

}  // namespace lowtide::layout
