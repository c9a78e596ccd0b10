// SPDX-License-Identifier: Apache-2.0
#include "layout/lower/custom_operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string_view>

#include "layout/core/custom_operator.h"
#include "layout/lower/custom_attributes.h"
#include "layout/lower/node_order.h"
#include "stream/error.h"
#include "stream/printable.h"

namespace lowtide::layout {
namespace {

using core::Builder;
using core::Val;
using onnx::Attribute;
using stream::DType;
using stream::Unsupported;
namespace recipe = stream::recipe;

constexpr const char* kMapHint = "a mapping of --custom-ops-map can declare it: \"outputs\"";

// An attribute as a constant: numbers as they are, lists of rank 1, text as its bytes.
Val as_constant(Builder& b, const Attribute& attribute) {
  const auto count = [](const auto& list) { return static_cast<core::Dim>(list.size()); };
  switch (attribute.type) {
    case Attribute::Type::kFloat:
      return b.constant(recipe::floats(std::vector<float>{attribute.f}, {}));
    case Attribute::Type::kInt:
      return b.constant(recipe::ints(std::vector<int64_t>{attribute.i}, DType::kInt64, {}));
    case Attribute::Type::kFloats:
      return b.constant(recipe::floats(attribute.floats, {count(attribute.floats)}));
    case Attribute::Type::kInts:
      return b.constant(recipe::ints(attribute.ints, DType::kInt64, {count(attribute.ints)}));
    case Attribute::Type::kString: {
      std::vector<int64_t> bytes;
      for (const char letter : attribute.s) bytes.push_back(static_cast<unsigned char>(letter));
      return b.constant(recipe::ints(bytes, DType::kUint8, {count(bytes)}));
    }
    case Attribute::Type::kTensor:
      if (attribute.tensors.at(0).data) return b.constant(attribute.tensors[0].data, attribute.tensors[0].name);
      break;
    default:
      break;
  }
  throw Unsupported(fmt::format("its attribute '{}' is of a type that no input can have", attribute.name),
                    "numbers, their lists, a string and a tensor can be passed as inputs");
}

// Half precision is widened inside the graph, so a kernel sees it as f32.
DType computed(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16 ? DType::kFloat32 : dtype; }

core::Dim extent_of(Builder& b, const Extent& extent, const std::vector<Val>& inputs, const std::string& output) {
  if (const auto* number = std::get_if<int64_t>(&extent)) return *number;
  const auto* of = std::get_if<InputExtent>(&extent);
  if (!of) return b.graph.symbols.fresh(output);
  if (of->input >= inputs.size() || !inputs[of->input])
    throw Unsupported(fmt::format("the mapping takes an extent of input {}, which the node does not have", of->input));
  const core::Shape& shape = b.shape(inputs[of->input]);
  const auto rank = static_cast<int64_t>(shape.size());
  if (of->axis >= rank || of->axis < -rank)
    throw Unsupported(
        fmt::format("the mapping takes axis {} of input {}, which has {} axes", of->axis, of->input, rank));
  return shape[static_cast<size_t>(of->axis < 0 ? of->axis + rank : of->axis)];
}

// The mapping's rule first, then what is known besides.
CustomOutput custom_output(Builder& b, const OutputRule& rule, const std::optional<CustomOutput>& known,
                           const std::vector<Val>& inputs, const std::string& output) {
  CustomOutput out;
  bool has_shape = false;
  if (known) {
    out = *known;
    has_shape = true;
  }
  if (rule.like) {
    if (*rule.like >= inputs.size() || !inputs[*rule.like])
      throw Unsupported(
          fmt::format("the mapping says that its output is like input {}, which the node does not have", *rule.like));
    out = {b.dtype(inputs[*rule.like]), b.shape(inputs[*rule.like])};
    has_shape = true;
  }
  if (rule.dtype) out.dtype = *rule.dtype;
  if (rule.shape) {
    out.shape.clear();
    for (const Extent& extent : *rule.shape) out.shape.push_back(extent_of(b, extent, inputs, output));
    has_shape = true;
  }
  out.dtype = computed(out.dtype);
  const bool has_type = out.dtype != DType::kUndefined;
  if (!has_type || !has_shape)
    throw Unsupported(fmt::format("the {} of its output '{}' {} not known",
                                  has_type    ? "shape"
                                  : has_shape ? "type"
                                              : "type and shape",
                                  output, has_type || has_shape ? "is" : "are"),
                      kMapHint);
  if (out.dtype == DType::kString) throw Unsupported(fmt::format("its output '{}' is a string tensor", output));
  return out;
}

// An attribute that is an extent.
core::Dim extent_attribute(const onnx::Node& node, std::string_view name, core::Dim otherwise) {
  const Attribute* found = node.find(name);
  if (!found || found->type != Attribute::Type::kInt) return otherwise;
  if (found->i < 1 || found->i > std::numeric_limits<int32_t>::max())
    throw stream::Error(stream::Code::kMalformed,
                        fmt::format("attribute '{}' must be from 1 to 2^31 - 1; it is {}", name, found->i));
  return found->i;
}

}  // namespace

OperatorName operator_name(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {std::nullopt, text};
  std::string domain = text.substr(0, colon);
  if (domain == "ai.onnx") domain.clear();
  return {std::move(domain), text.substr(colon + 1)};
}

const CustomMapping* CustomOperators::mapping(const onnx::Node& node) const {
  for (const CustomMapping& one : choice_.mappings)
    if (one.of.fits(node)) return &one;
  return nullptr;
}

bool CustomOperators::names(const onnx::Node& node) {
  bool any = false;
  for (const OperatorName& name : choice_.named)
    if (name.fits(node)) {
      any = true;
      met_.insert(&name);
    }
  for (const CustomMapping& one : choice_.mappings)
    if (one.of.fits(node)) {
      any = true;
      met_.insert(&one.of);
    }
  return any;
}

std::vector<Val> CustomOperators::add(Builder& b, const onnx::Node& node, int64_t opset, const std::vector<Val>& inputs,
                                      const KnownOutputs& known) const {
  static const CustomMapping kNoMapping;
  const CustomMapping* found = mapping(node);
  const CustomMapping& mapped = found ? *found : kNoMapping;
  auto described = std::make_shared<core::CustomOperator>();
  described->name = mapped.name.empty() ? node.op_type : mapped.name;
  described->version = mapped.version;
  described->any_axis_order = mapped.any_axis_order;
  if (described->name.empty() || described->name.find('\0') != std::string::npos || !stream::is_utf8(described->name))
    throw Unsupported(fmt::format("no custom operator can have the name '{}'", described->name),
                      "a mapping of --custom-ops-map can give another: \"name\"");
  if (described->name.starts_with("Flex"))
    throw Unsupported(fmt::format("TFLite takes the name '{}' for an operator of TensorFlow", described->name),
                      "a mapping of --custom-ops-map can give another: \"name\"");
  core::Op op{.kind = core::Kind::kCustom, .inputs = {}, .outputs = {}, .origin = b.origin};
  for (const Val in : inputs) {
    if (in) b.known(in);  // behind a refused node the types of outputs may be wrong
    op.inputs.push_back(in.id);
  }
  for (const std::string& name : mapped.attributes_as_inputs) {
    const Attribute* attribute = node.find(name);
    if (!attribute)
      throw Unsupported(fmt::format("the mapping passes its attribute '{}' as an input, and it has none", name),
                        "give it in the model, with its default");
    op.inputs.push_back(as_constant(b, *attribute).id);
  }
  described->attributes = attributes_as_flexbuffer(
      node, opset, {mapped.attributes_as_inputs.begin(), mapped.attributes_as_inputs.end()}, b.graph.budget);
  size_t count = node.outputs.size();
  while (count > 1 && node.outputs[count - 1].empty()) --count;
  std::vector<CustomOutput> types;
  for (size_t i = 0; i < count; ++i)
    types.push_back(custom_output(b, i < mapped.outputs.size() ? mapped.outputs[i] : OutputRule(),
                                  i < known.size() ? known[i] : std::nullopt, inputs,
                                  node.outputs[i].empty() ? fmt::format("{}", i) : node.outputs[i]));
  std::vector<Val> out;
  for (CustomOutput& type : types) {
    const core::ValueId id = b.graph.add_value(type.dtype, std::move(type.shape));
    b.graph.at(id).producer = static_cast<core::OpId>(b.graph.ops.size());
    op.outputs.push_back(id);
    out.push_back({id});
  }
  op.options = core::CustomOptions{std::move(described)};
  b.graph.add_op(std::move(op));
  return out;
}

std::vector<std::string> CustomOperators::notes() const {
  std::vector<std::string> out;
  auto look = [&](const OperatorName& name) {
    if (met_.contains(&name)) return;
    const std::string shown =
        name.domain ? fmt::format("{}:{}", name.domain->empty() ? "ai.onnx" : *name.domain, name.op) : name.op;
    out.push_back(fmt::format("the model has no operator {} that could become a custom one", shown));
  };
  for (const OperatorName& name : choice_.named) look(name);
  for (const CustomMapping& one : choice_.mappings) look(one.of);
  return out;
}

// Source: ONNX's operators of the domain ai.onnx.ml.
KnownOutputs outputs_by_onnx(Builder& b, const onnx::Node& node, const std::vector<Val>& inputs) {
  if (node.domain != "ai.onnx.ml" || inputs.empty() || !inputs[0]) return {};
  const std::string_view op = node.op_type;
  const core::Shape shape = b.shape(inputs[0]);
  if (op == "Imputer" || op == "Binarizer") return {CustomOutput{b.dtype(inputs[0]), shape}};
  if (op == "Scaler" || op == "Normalizer") return {CustomOutput{DType::kFloat32, shape}};
  const bool is_regressor = op == "LinearRegressor" || op == "TreeEnsembleRegressor" || op == "SVMRegressor";
  if (!is_regressor || shape.size() != 2) return {};
  core::Dim targets = 1;
  if (op == "LinearRegressor") targets = extent_attribute(node, "targets", 1);
  if (op == "TreeEnsembleRegressor") targets = extent_attribute(node, "n_targets", 1);
  return {CustomOutput{DType::kFloat32, {shape[0], targets}}};
}

}  // namespace lowtide::layout
