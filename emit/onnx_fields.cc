// SPDX-License-Identifier: Apache-2.0
#include "emit/onnx_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "schemas/onnx.pb.h"
#include "stream/error.h"
#include "stream/file/source.h"

namespace lowtide::emit {
namespace {

namespace pb = ::onnx;
using onnx::Attribute;
using onnx::SparseTensor;
using onnx::Tensor;
using onnx::ValueInfo;
using stream::Code;
using stream::Error;

// What is copied from the model and is larger than this is not held in memory.
constexpr uint64_t kMostHeld = 4096;

// The numbers of data types are the reader's: its table, read backwards.
uint64_t data_type(stream::DType dtype) {
  constexpr int64_t kMostTypes = 64;  // the reader knows newer ones than the schema here
  for (int64_t number = 0; number < kMostTypes; ++number)
    if (stream::onnx_dtype(number) == dtype) return static_cast<uint64_t>(number);
  throw Error(Code::kUnsupported, fmt::format("{} is no data type of ONNX", stream::dtype_name(dtype)));
}

void opset(OnnxMessage& out, int field, const std::string& domain, int64_t version) {
  OnnxMessage entry;
  entry.text(pb::OperatorSetIdProto::kDomainFieldNumber, domain);
  entry.number(pb::OperatorSetIdProto::kVersionFieldNumber, static_cast<uint64_t>(version));
  out.message(field, std::move(entry));
}

// Writes one model.
class Writer {
 public:
  Writer(const onnx::Model& model, const PutElements& put_elements)
      : file_(model.sources.empty() ? nullptr : model.sources[0]), put_elements_(put_elements) {}

  OnnxMessage model(const onnx::Model& model) {
    using M = pb::ModelProto;
    OnnxMessage out;
    out.number(M::kIrVersionFieldNumber, static_cast<uint64_t>(model.ir_version));
    text(out, M::kProducerNameFieldNumber, model.producer_name);
    text(out, M::kProducerVersionFieldNumber, model.producer_version);
    text(out, M::kDomainFieldNumber, model.domain);
    if (model.model_version != 0) out.number(M::kModelVersionFieldNumber, static_cast<uint64_t>(model.model_version));
    text(out, M::kDocStringFieldNumber, model.doc_string);
    for (const auto& [domain, version] : model.opsets) opset(out, M::kOpsetImportFieldNumber, domain, version);
    for (const auto& [key, value] : model.metadata) {
      OnnxMessage entry;
      entry.text(pb::StringStringEntryProto::kKeyFieldNumber, key);
      entry.text(pb::StringStringEntryProto::kValueFieldNumber, value);
      out.message(M::kMetadataPropsFieldNumber, std::move(entry));
    }
    for (const onnx::Function& some : model.functions) out.message(M::kFunctionsFieldNumber, function(some));
    out.message(M::kGraphFieldNumber, graph(model.graph));
    return out;
  }

 private:
  static void text(OnnxMessage& out, int field, const std::string& value) {
    if (!value.empty()) out.text(field, value);
  }

  // What stands in the file already. False when it does not, or may not stay as it is.
  bool copied(OnnxMessage& out, stream::Range place, const std::string& name) const {
    if (place.bytes() == 0 || !file_) return false;
    if (place.bytes() <= kMostHeld) {
      std::string bytes(place.bytes(), '\0');
      file_->read_at(place.begin, std::as_writable_bytes(std::span(bytes)));
      out.append(bytes);
      return true;
    }
    const stream::FileRun run{.offset = place.begin, .bytes = place.bytes(), .elements = place.bytes()};
    out.append(stream::recipe::stored(file_, {run}, stream::DType::kUint8, {static_cast<int64_t>(place.bytes())}),
               name);
    return true;
  }

  // Elements in other files than the model's.
  bool is_external(const Tensor& tensor) const {
    if (!tensor.data) return false;
    const auto* stored = std::get_if<stream::step::Stored>(&tensor.data->step);
    return stored != nullptr && stored->source != file_;
  }
  bool is_external(const SparseTensor& tensor) const {
    return is_external(tensor.values) || is_external(tensor.indices);
  }
  bool has_external(const onnx::Graph& graph) const {
    return std::ranges::any_of(graph.initializers, [&](const Tensor& t) { return is_external(t); }) ||
           std::ranges::any_of(graph.sparse_initializers, [&](const SparseTensor& s) { return is_external(s); }) ||
           has_external(graph.nodes);
  }
  bool has_external(const std::vector<onnx::Node>& nodes) const {
    return std::ranges::any_of(nodes, [&](const onnx::Node& node) { return has_external(node); });
  }
  bool has_external(const onnx::Node& node) const { return has_external(node.attributes); }
  bool has_external(const std::vector<Attribute>& attributes) const {
    return std::ranges::any_of(attributes, [&](const Attribute& attribute) {
      return std::ranges::any_of(attribute.tensors, [&](const Tensor& t) { return is_external(t); }) ||
             std::ranges::any_of(attribute.sparse, [&](const SparseTensor& s) { return is_external(s); }) ||
             std::ranges::any_of(attribute.graphs, [&](const auto& g) { return has_external(*g); });
    });
  }

  OnnxMessage function(const onnx::Function& function) {
    using F = pb::FunctionProto;
    OnnxMessage out;
    const bool is_here = !has_external(function.nodes) && !has_external(function.attribute_defaults);
    if (is_here && copied(out, function.place, function.name)) return out;
    out.text(F::kNameFieldNumber, function.name);
    for (const std::string& name : function.inputs) out.text(F::kInputFieldNumber, name);
    for (const std::string& name : function.outputs) out.text(F::kOutputFieldNumber, name);
    for (const std::string& name : function.attributes) out.text(F::kAttributeFieldNumber, name);
    for (const onnx::Node& some : function.nodes) out.message(F::kNodeFieldNumber, node(some));
    for (const auto& [domain, version] : function.opsets) opset(out, F::kOpsetImportFieldNumber, domain, version);
    text(out, F::kDomainFieldNumber, function.domain);
    for (const Attribute& some : function.attribute_defaults)
      out.message(F::kAttributeProtoFieldNumber, attribute(some));
    text(out, F::kOverloadFieldNumber, function.overload);
    return out;
  }

  OnnxMessage graph(const onnx::Graph& graph) {
    using G = pb::GraphProto;
    OnnxMessage out;
    for (const onnx::Node& some : graph.nodes) out.message(G::kNodeFieldNumber, node(some));
    out.text(G::kNameFieldNumber, graph.name);
    for (const Tensor& some : graph.initializers) out.message(G::kInitializerFieldNumber, tensor(some, put_elements_));
    for (const ValueInfo& some : graph.inputs) out.message(G::kInputFieldNumber, value_info(some));
    for (const ValueInfo& some : graph.outputs) out.message(G::kOutputFieldNumber, value_info(some));
    for (const ValueInfo& some : graph.value_info) out.message(G::kValueInfoFieldNumber, value_info(some));
    for (const onnx::SparseTensor& some : graph.sparse_initializers)
      out.message(G::kSparseInitializerFieldNumber, sparse(some));
    return out;
  }

  OnnxMessage node(const onnx::Node& node) {
    using N = pb::NodeProto;
    OnnxMessage out;
    try {
      if (!has_external(node) && copied(out, node.place, node.label())) return out;
      for (const std::string& name : node.inputs) out.text(N::kInputFieldNumber, name);
      for (const std::string& name : node.outputs) out.text(N::kOutputFieldNumber, name);
      text(out, N::kNameFieldNumber, node.name);
      out.text(N::kOpTypeFieldNumber, node.op_type);
      for (const Attribute& some : node.attributes) out.message(N::kAttributeFieldNumber, attribute(some));
      text(out, N::kDomainFieldNumber, node.domain);
      text(out, N::kOverloadFieldNumber, node.overload);
    } catch (Error& error) {
      error.add_place({.node = node.label(), .op = node.op_type});
      throw;
    }
    return out;
  }

  OnnxMessage attribute(const Attribute& attribute) {
    using A = pb::AttributeProto;
    OnnxMessage out;
    out.text(A::kNameFieldNumber, attribute.name);
    switch (attribute.reference.empty() ? attribute.type : Attribute::Type::kUndefined) {
      case Attribute::Type::kUndefined:  // of a reference: the type alone
        break;
      case Attribute::Type::kFloat:
        out.float32(A::kFFieldNumber, attribute.f);
        break;
      case Attribute::Type::kInt:
        out.number(A::kIFieldNumber, static_cast<uint64_t>(attribute.i));
        break;
      case Attribute::Type::kString:
        out.text(A::kSFieldNumber, attribute.s);
        break;
      case Attribute::Type::kFloats:
        for (float value : attribute.floats) out.float32(A::kFloatsFieldNumber, value);
        break;
      case Attribute::Type::kInts:
        out.numbers(A::kIntsFieldNumber, attribute.ints);
        break;
      case Attribute::Type::kStrings:
        for (const std::string& value : attribute.strings) out.text(A::kStringsFieldNumber, value);
        break;
      case Attribute::Type::kTensor:
        out.message(A::kTFieldNumber, tensor(attribute.tensors.at(0), put_inline));
        break;
      case Attribute::Type::kTensors:
        for (const Tensor& value : attribute.tensors) out.message(A::kTensorsFieldNumber, tensor(value, put_inline));
        break;
      case Attribute::Type::kGraph:
        out.message(A::kGFieldNumber, graph(*attribute.graphs.at(0)));
        break;
      case Attribute::Type::kGraphs:
        for (const auto& value : attribute.graphs) out.message(A::kGraphsFieldNumber, graph(*value));
        break;
      case Attribute::Type::kSparseTensor:
        out.message(A::kSparseTensorFieldNumber, sparse(attribute.sparse.at(0)));
        break;
      case Attribute::Type::kSparseTensors:
        for (const auto& value : attribute.sparse) out.message(A::kSparseTensorsFieldNumber, sparse(value));
        break;
      case Attribute::Type::kTypeProto:
        out.message(A::kTpFieldNumber, type(attribute.types.at(0)));
        break;
      case Attribute::Type::kTypeProtos:
        for (const auto& value : attribute.types) out.message(A::kTypeProtosFieldNumber, type(value));
        break;
    }
    out.number(A::kTypeFieldNumber, static_cast<uint64_t>(attribute.type));
    text(out, A::kRefAttrNameFieldNumber, attribute.reference);
    return out;
  }

  OnnxMessage tensor(const Tensor& tensor, const PutElements& put_elements) {
    using T = pb::TensorProto;
    OnnxMessage out;
    out.numbers(T::kDimsFieldNumber, tensor.dims);
    out.number(T::kDataTypeFieldNumber, data_type(tensor.dtype));
    text(out, T::kNameFieldNumber, tensor.name);
    if (tensor.dtype == stream::DType::kString) {
      for (const std::string& value : tensor.strings) out.text(T::kStringDataFieldNumber, value);
    } else {
      put_elements(tensor, out);
    }
    return out;
  }

  OnnxMessage sparse(const onnx::SparseTensor& sparse) {
    using S = pb::SparseTensorProto;
    OnnxMessage out;
    out.message(S::kValuesFieldNumber, tensor(sparse.values, put_inline));
    out.message(S::kIndicesFieldNumber, tensor(sparse.indices, put_inline));
    out.numbers(S::kDimsFieldNumber, sparse.dims);
    return out;
  }

  OnnxMessage value_info(const ValueInfo& value) {
    using V = pb::ValueInfoProto;
    OnnxMessage out;
    if (copied(out, value.place, value.name)) return out;
    out.text(V::kNameFieldNumber, value.name);
    if (value.type != ValueInfo::Type::kNone) out.message(V::kTypeFieldNumber, type(value));
    return out;
  }

  OnnxMessage type(const ValueInfo& value) {
    using T = pb::TypeProto;
    OnnxMessage out;
    switch (value.type) {
      case ValueInfo::Type::kTensor:
        out.message(T::kTensorTypeFieldNumber, tensor_type(value));
        return out;
      case ValueInfo::Type::kSparseTensor:
        out.message(T::kSparseTensorTypeFieldNumber, tensor_type(value));
        return out;
      default:
        throw Error(Code::kUnsupported, "the type of this value cannot be written: it is neither a tensor nor copied",
                    {.slot = fmt::format("value '{}'", value.name)});
    }
  }

  // TypeProto.Tensor and TypeProto.SparseTensor have the same fields.
  static OnnxMessage tensor_type(const ValueInfo& value) {
    using D = pb::TensorShapeProto_Dimension;
    OnnxMessage out;
    out.number(pb::TypeProto_Tensor::kElemTypeFieldNumber, data_type(value.dtype));
    if (!value.has_shape) return out;
    OnnxMessage shape;
    for (const onnx::Dimension& dimension : value.dims) {
      OnnxMessage dim;
      if (dimension.value >= 0) {
        dim.number(D::kDimValueFieldNumber, static_cast<uint64_t>(dimension.value));
      } else if (!dimension.symbol.empty()) {
        dim.text(D::kDimParamFieldNumber, dimension.symbol);
      }
      shape.message(pb::TensorShapeProto::kDimFieldNumber, std::move(dim));
    }
    out.message(pb::TypeProto_Tensor::kShapeFieldNumber, std::move(shape));
    return out;
  }

  std::shared_ptr<stream::Source> file_;
  const PutElements& put_elements_;
};

}  // namespace

void put_inline(const Tensor& tensor, OnnxMessage& out) {
  out.data(pb::TensorProto::kRawDataFieldNumber, tensor.data, tensor.name);
}

OnnxMessage onnx_model(const onnx::Model& model, const PutElements& put_elements) {
  return Writer(model, put_elements).model(model);
}

}  // namespace lowtide::emit
