// SPDX-License-Identifier: Apache-2.0
// Graphs, nodes, attributes and types of an ONNX file.
//
// The traps: fields come in any order, and a graph may come in two parts; in the oldest files attributes have no type;
// proto3 writers omit values that are zero, so a type without its field means zero.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "schemas/onnx.pb.h"
#include "stream/error.h"
#include "stream/onnx/parser.h"

namespace lowtide::stream {

namespace pb = ::onnx;
using onnx::Attribute;
using onnx::ValueInfo;

namespace {

unsigned bit(Attribute::Type type) { return 1U << static_cast<unsigned>(type); }

// The first name that occurs twice, or null.
const std::string_view* first_duplicate(std::vector<std::string_view>& names) {
  std::sort(names.begin(), names.end());
  auto it = std::adjacent_find(names.begin(), names.end());
  return it == names.end() ? nullptr : &*it;
}

template <typename T>
void grow(std::vector<T>& list, size_t count) {
  list.reserve(list.size() + count);
}

}  // namespace

void OnnxParser::graph(Range body, onnx::Graph& graph) {
  reserve(body, graph);
  Message m(wire_, body);
  while (m.next()) {
    switch (m.field()) {
      case pb::GraphProto::kNameFieldNumber:
        graph.name = m.name();
        break;
      case pb::GraphProto::kNodeFieldNumber:
        graph.nodes.push_back(node(m.body()));
        break;
      case pb::GraphProto::kInitializerFieldNumber:
        graph.initializers.push_back(tensor(m.body(), "initializer"));
        break;
      case pb::GraphProto::kSparseInitializerFieldNumber:
        graph.sparse_initializers.push_back(sparse_tensor(m.body(), "sparse initializer"));
        break;
      case pb::GraphProto::kInputFieldNumber:
        graph.inputs.push_back(value_info(m.body()));
        break;
      case pb::GraphProto::kOutputFieldNumber:
        graph.outputs.push_back(value_info(m.body()));
        break;
      case pb::GraphProto::kValueInfoFieldNumber:
        graph.value_info.push_back(value_info(m.body()));
        break;
      default:
        break;
    }
  }
  check_names(graph, body.begin);
}

// Counts first, because growing vectors would use up to three times the memory of the graph.
void OnnxParser::reserve(Range body, onnx::Graph& graph) {
  size_t nodes = 0, initializers = 0, sparse = 0, value_infos = 0;
  Message m(wire_, body);
  while (m.next()) {
    switch (m.field()) {
      case pb::GraphProto::kNodeFieldNumber:
        ++nodes;
        break;
      case pb::GraphProto::kInitializerFieldNumber:
        ++initializers;
        break;
      case pb::GraphProto::kSparseInitializerFieldNumber:
        ++sparse;
        break;
      case pb::GraphProto::kValueInfoFieldNumber:
        ++value_infos;
        break;
      default:
        break;
    }
  }
  grow(graph.nodes, nodes);
  grow(graph.initializers, initializers);
  grow(graph.sparse_initializers, sparse);
  grow(graph.value_info, value_infos);
}

void OnnxParser::check_names(const onnx::Graph& graph, uint64_t offset) {
  std::vector<std::string_view> names;
  names.reserve(graph.initializers.size() + graph.sparse_initializers.size());
  for (const onnx::Tensor& tensor : graph.initializers) names.push_back(tensor.name);
  for (const onnx::SparseTensor& tensor : graph.sparse_initializers) names.push_back(tensor.values.name);
  if (const auto* name = first_duplicate(names)) {
    wire_.fail(offset,
               name->empty() ? "two initializers have no name" : fmt::format("two initializers are named '{}'", *name));
  }
  names.clear();
  for (const ValueInfo& input : graph.inputs) names.push_back(input.name);
  if (const auto* name = first_duplicate(names))
    wire_.fail(offset, fmt::format("two graph inputs are named '{}'", *name));
}

onnx::Node OnnxParser::node(Range body) {
  onnx::Node node;
  node.offset = body.begin;
  node.place = body;
  const NodeInWork outer = std::exchange(node_, {.body = body});
  try {
    node_fields(body, node);
    if (node.op_type.empty()) wire_.fail(body.begin, "the node has no operator (op_type)");
    std::vector<std::string_view> names;
    for (const Attribute& attribute : node.attributes) names.push_back(attribute.name);
    if (const auto* name = first_duplicate(names))
      wire_.fail(body.begin, fmt::format("attribute '{}' is given twice", *name));
  } catch (Error& error) {
    const std::string prefix = node.domain.empty() ? "" : node.domain + ".";
    error.add_place({.node = node.label(), .op = node.op_type.empty() ? "" : prefix + node.op_type});
    throw;
  }
  node_ = outer;
  return node;
}

void OnnxParser::node_fields(Range body, onnx::Node& node) {
  Message m(wire_, body);
  while (m.next()) {
    switch (m.field()) {
      case pb::NodeProto::kInputFieldNumber:
        node.inputs.push_back(m.name());
        break;
      case pb::NodeProto::kOutputFieldNumber:
        node.outputs.push_back(m.name());
        break;
      case pb::NodeProto::kNameFieldNumber:
        node.name = m.name();
        break;
      case pb::NodeProto::kOpTypeFieldNumber:
        node.op_type = m.name();
        break;
      case pb::NodeProto::kDomainFieldNumber:
        node.domain = canonical_domain(m.name());
        break;
      case pb::NodeProto::kOverloadFieldNumber:
        node.overload = m.name();
        break;
      case pb::NodeProto::kAttributeFieldNumber:
        node.attributes.push_back(attribute(m.body()));
        break;
      default:
        break;
    }
  }
  node.inputs.shrink_to_fit();
  node.outputs.shrink_to_fit();
  node.attributes.shrink_to_fit();
}

// Whether the attribute is the list of numbers that is a Constant's value. Such a list may be as large as any weight.
bool OnnxParser::is_list_of_constant(Range attribute) {
  std::string name;
  Message fields(wire_, attribute);
  while (fields.next() && name.empty())
    if (fields.field() == pb::AttributeProto::kNameFieldNumber) name = fields.name();
  return (name == "value_floats" || name == "value_ints") && is_in_constant();
}

// Whether the node is a Constant of ONNX, which its fields may say after its attributes. Looked for once: a node may
// have any number of attributes.
bool OnnxParser::is_in_constant() {
  if (!node_.is_constant) {
    std::string op_type, domain;
    Message fields(wire_, node_.body);
    while (fields.next()) {
      if (fields.field() == pb::NodeProto::kOpTypeFieldNumber) op_type = fields.name();
      if (fields.field() == pb::NodeProto::kDomainFieldNumber) domain = canonical_domain(fields.name());
    }
    node_.is_constant = op_type == "Constant" && domain.empty();
  }
  return *node_.is_constant;
}

Attribute OnnxParser::attribute(Range body) {
  Attribute attribute;
  try {
    std::vector<FileRun> list;
    const unsigned seen = attribute_fields(body, attribute, is_list_of_constant(body) ? &list : nullptr);
    resolve_type(attribute, seen, body.begin);
    if (!list.empty()) {
      // The same constant in ONNX's other form, whose elements stay in the file.
      attribute.tensors = {
          listed_tensor(std::move(list), attribute.type == Attribute::Type::kFloats ? DType::kFloat32 : DType::kInt64)};
      attribute.name = "value";
      attribute.type = Attribute::Type::kTensor;
    }
  } catch (Error& error) {
    error.add_place({.slot = fmt::format("attribute '{}'", attribute.name)});
    throw;
  }
  return attribute;
}

// Returns one bit for each value field that is present. Lists of numbers go to `list` if there is one.
unsigned OnnxParser::attribute_fields(Range body, Attribute& attribute, std::vector<FileRun>* list) {
  using Type = Attribute::Type;
  unsigned seen = 0;
  Message m(wire_, body);
  // Protobuf would merge two parts of one message; two values of an attribute are more likely a mistake.
  auto once = [&](Type type) {
    if (seen & bit(type)) m.fail("the value is given twice");
    seen |= bit(type);
  };
  auto graph_value = [&] {
    attribute.graphs.push_back(std::make_shared<onnx::Graph>());
    graph(m.body(), *attribute.graphs.back());
  };
  while (m.next()) {
    switch (m.field()) {
      case pb::AttributeProto::kNameFieldNumber:
        attribute.name = m.name();
        break;
      case pb::AttributeProto::kRefAttrNameFieldNumber:
        attribute.reference = m.name();
        break;
      case pb::AttributeProto::kTypeFieldNumber: {
        const uint64_t type = m.varint();
        if (type > static_cast<uint64_t>(Type::kTypeProtos)) m.fail(fmt::format("attribute type {} is unknown", type));
        attribute.type = static_cast<Type>(type);
        break;
      }
      case pb::AttributeProto::kFFieldNumber:
        seen |= bit(Type::kFloat);
        attribute.f = m.float32();
        break;
      case pb::AttributeProto::kIFieldNumber:
        seen |= bit(Type::kInt);
        attribute.i = m.int64();
        break;
      case pb::AttributeProto::kSFieldNumber:
        seen |= bit(Type::kString);
        attribute.s = m.text();
        break;
      case pb::AttributeProto::kTFieldNumber:
        once(Type::kTensor);
        attribute.tensors.push_back(tensor(m.body(), "tensor"));
        break;
      case pb::AttributeProto::kGFieldNumber:
        once(Type::kGraph);
        graph_value();
        break;
      case pb::AttributeProto::kSparseTensorFieldNumber:
        once(Type::kSparseTensor);
        attribute.sparse.push_back(sparse_tensor(m.body(), "sparse tensor"));
        break;
      case pb::AttributeProto::kTpFieldNumber:
        once(Type::kTypeProto);
        attribute.types.emplace_back();
        type(m.body(), attribute.types.back(), true);
        break;
      case pb::AttributeProto::kFloatsFieldNumber:
        seen |= bit(Type::kFloats);
        if (list)
          add_run(m, 4, *list);
        else
          m.append(attribute.floats);
        break;
      case pb::AttributeProto::kIntsFieldNumber:
        seen |= bit(Type::kInts);
        if (list)
          add_run(m, 0, *list);
        else
          m.append(attribute.ints);
        break;
      case pb::AttributeProto::kStringsFieldNumber:
        seen |= bit(Type::kStrings);
        attribute.strings.push_back(m.text());
        break;
      case pb::AttributeProto::kTensorsFieldNumber:
        seen |= bit(Type::kTensors);
        attribute.tensors.push_back(tensor(m.body(), "tensor"));
        break;
      case pb::AttributeProto::kGraphsFieldNumber:
        seen |= bit(Type::kGraphs);
        graph_value();
        break;
      case pb::AttributeProto::kSparseTensorsFieldNumber:
        seen |= bit(Type::kSparseTensors);
        attribute.sparse.push_back(sparse_tensor(m.body(), "sparse tensor"));
        break;
      case pb::AttributeProto::kTypeProtosFieldNumber:
        seen |= bit(Type::kTypeProtos);
        attribute.types.emplace_back();
        type(m.body(), attribute.types.back(), true);
        break;
      default:
        break;
    }
  }
  return seen;
}

void OnnxParser::resolve_type(Attribute& attribute, unsigned seen, uint64_t offset) {
  using Type = Attribute::Type;
  if (attribute.name.empty()) wire_.fail(offset, "the attribute has no name");
  if (!attribute.reference.empty()) {
    if (!in_function_) wire_.fail(offset, "has ref_attr_name outside of a function");
    if (seen != 0) wire_.fail(offset, "has both a value and ref_attr_name");
    return;
  }
  if (seen & (seen - 1)) wire_.fail(offset, "has values of several types");
  if (attribute.type == Type::kUndefined) {
    if (seen == 0) wire_.fail(offset, "has neither a type nor a value");
    attribute.type = static_cast<Type>(__builtin_ctz(seen));
  }
  if (seen != 0 && seen != bit(attribute.type)) {
    wire_.fail(offset, fmt::format("has type {}, but a value of type {}", static_cast<int>(attribute.type),
                                   __builtin_ctz(seen)));
  }
  const bool has_no_zero = attribute.type == Type::kTensor || attribute.type == Type::kGraph ||
                           attribute.type == Type::kSparseTensor || attribute.type == Type::kTypeProto;
  if (seen == 0 && has_no_zero) wire_.fail(offset, "has no value");
}

ValueInfo OnnxParser::value_info(Range body) {
  ValueInfo value;
  value.place = body;
  try {
    Message m(wire_, body);
    while (m.next()) {
      if (m.field() == pb::ValueInfoProto::kNameFieldNumber) value.name = m.name();
      if (m.field() == pb::ValueInfoProto::kTypeFieldNumber) type(m.body(), value, true);
    }
  } catch (Error& error) {
    if (!value.name.empty()) error.add_place({.slot = fmt::format("value '{}'", value.name)});
    throw;
  }
  if (value.name.empty()) wire_.fail(body.begin, "an input, output or value_info has no name");
  return value;
}

// For a sequence, map or optional, dtype and shape are those of the innermost tensor.
void OnnxParser::type(Range body, ValueInfo& value, bool outermost) {
  auto set = [&](ValueInfo::Type type) {
    if (outermost) value.type = type;
  };
  auto element = [&](Range message, int field) {
    Message e(wire_, message);
    while (e.next())
      if (e.field() == field) type(e.body(), value, false);
  };
  Message m(wire_, body);
  while (m.next()) {
    switch (m.field()) {
      case pb::TypeProto::kTensorTypeFieldNumber:
        set(ValueInfo::Type::kTensor);
        tensor_type(m.body(), value);
        break;
      case pb::TypeProto::kSparseTensorTypeFieldNumber:
        set(ValueInfo::Type::kSparseTensor);
        tensor_type(m.body(), value);
        break;
      case pb::TypeProto::kSequenceTypeFieldNumber:
        set(ValueInfo::Type::kSequence);
        element(m.body(), pb::TypeProto_Sequence::kElemTypeFieldNumber);
        break;
      case pb::TypeProto::kMapTypeFieldNumber:
        set(ValueInfo::Type::kMap);
        element(m.body(), pb::TypeProto_Map::kValueTypeFieldNumber);
        break;
      case pb::TypeProto::kOptionalTypeFieldNumber:
        set(ValueInfo::Type::kOptional);
        element(m.body(), pb::TypeProto_Optional::kElemTypeFieldNumber);
        break;
      case pb::TypeProto::kOpaqueTypeFieldNumber:
        set(ValueInfo::Type::kOpaque);
        break;
      default:
        break;
    }
  }
}

// TypeProto.Tensor and TypeProto.SparseTensor have the same fields.
void OnnxParser::tensor_type(Range body, ValueInfo& value) {
  Message m(wire_, body);
  while (m.next()) {
    if (m.field() == pb::TypeProto_Tensor::kElemTypeFieldNumber) value.dtype = onnx_dtype(m.int64(), wire_, m.offset());
    if (m.field() == pb::TypeProto_Tensor::kShapeFieldNumber) shape(m.body(), value);
  }
}

void OnnxParser::shape(Range body, ValueInfo& value) {
  value.has_shape = true;
  value.dims.clear();
  Message m(wire_, body);
  while (m.next()) {
    if (m.field() != pb::TensorShapeProto::kDimFieldNumber) continue;
    onnx::Dimension dimension;
    Message d(wire_, m.body());
    while (d.next()) {
      // Some exporters write -1 for an unknown size.
      if (d.field() == pb::TensorShapeProto_Dimension::kDimValueFieldNumber) {
        dimension.value = std::max<int64_t>(d.int64(), -1);
      }
      if (d.field() == pb::TensorShapeProto_Dimension::kDimParamFieldNumber) dimension.symbol = d.name();
    }
    value.dims.push_back(std::move(dimension));
  }
}

}  // namespace lowtide::stream
