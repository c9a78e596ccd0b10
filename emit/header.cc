// SPDX-License-Identifier: Apache-2.0
#include "emit/header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <unordered_map>

#include "emit/builtins/table.h"
#include "emit/custom_operators.h"
#include "emit/tensor_names.h"
#include "emit/tflite_notes.h"
#include "layout/core/builtin.h"
#include "layout/core/custom_operator.h"
#include "layout/core/stateful_builtin.h"
#include "schemas/tflite_generated.h"
#include "stream/error.h"
#include "stream/tflite/dtype.h"
#include "stream/tflite/flatbuffer_verifier.h"

namespace lowtide::emit {
namespace {

using core::Graph;
using core::Kind;
using core::Op;
using core::Value;
using core::ValueId;
using stream::Code;
using stream::Error;
using stream::Unsupported;
template <typename T>
using Offsets = std::vector<flatbuffers::Offset<T>>;

constexpr uint32_t kSchemaVersion = 3;  // of files with the identifier TFL3
// Nonzero, so that the builder does not drop the field as a default.
constexpr uint32_t kPlaceholder = 1;
constexpr std::string_view kExternalBuffersSince = "2.14.0";  // runtimes that read Buffer.offset
// CompiledModel reads external buffers since ai-edge-litert 2.1.4. When it appeared, the versions of TFLite's runtimes
// had reached this one.
constexpr std::string_view kInPlaceSince = "2.22.0";
// Tells ids of external buffers from indices of buffers: XNNPACK's weight cache takes both for one name space.
constexpr uint32_t kExternalId = uint32_t{1} << 31;
constexpr size_t kRuntimeVersionBytes = 16;

stream::Where at(const std::string& tensor) { return {.slot = fmt::format("tensor '{}'", tensor)}; }

int32_t narrow(int64_t extent, const std::string& tensor) {
  if (extent > std::numeric_limits<int32_t>::max())
    throw Unsupported(fmt::format("extent {} does not fit TFLite's 32 bits", extent), {}, at(tensor));
  return static_cast<int32_t>(extent);
}

// About what the header takes: a builder that has to grow holds it twice for a moment. Rather too much, because memory
// that is not written to costs nothing.
size_t likely_bytes(const core::Model& model) {
  constexpr size_t kOthers = 64 << 10, kTensor = 160, kOperator = 128;
  size_t bytes = kOthers;
  for (const auto& graph : model.graphs) {
    bytes += graph->ops.size() * kOperator;
    for (const Value& value : graph->values) {
      bytes += kTensor + value.name.size();
      if (value.quantization) bytes += value.quantization->scale.size() * (sizeof(float) + sizeof(int64_t));
    }
  }
  return bytes;
}

class HeaderBuilder {
 public:
  HeaderBuilder(const core::Model& model, Plan& plan)
      : model_(model), plan_(plan), fbb_(likely_bytes(model)), custom_names_(model) {
    buffers_.push_back(tflite::CreateBuffer(fbb_));
    for (const InPlace& constant : plan.in_place)
      external_id_of_.emplace(constant.recipe.get(), kExternalId | static_cast<uint32_t>(external_id_of_.size()));
  }
  void build();

 private:
  flatbuffers::Offset<tflite::SubGraph> subgraph(size_t index);
  flatbuffers::Offset<tflite::Tensor> tensor(const Value& value, const std::string& name);
  flatbuffers::Offset<tflite::QuantizationParameters> quantization(const core::Boxed<core::Quantization>& from);
  flatbuffers::Offset<tflite::Operator> operation(const Graph& graph, const Op& op,
                                                  const std::vector<int32_t>& tensor_of,
                                                  Offsets<tflite::Tensor>& tensors);
  int32_t own_tensor(const core::StatefulBuiltin::Tensor& own, bool is_variable, Offsets<tflite::Tensor>& tensors);
  flatbuffers::Offset<tflite::SignatureDef> signature(const Graph& graph, uint32_t index, const std::string& key,
                                                      const std::vector<int32_t>& tensor_of);
  uint32_t constant_buffer(const Value& value, const std::string& name);
  uint32_t external_id(const Value& value) const;
  Offsets<tflite::ExternalBufferGroup> external_groups();
  Offsets<tflite::ExternalBuffer> external_buffers();
  uint32_t header_buffer(std::span<const uint8_t> bytes);
  uint32_t operator_code(const Graph& graph, const Op& op);
  uint32_t custom_code(const core::CustomOperator& custom);
  flatbuffers::Offset<flatbuffers::Vector<uint8_t>> custom_options(const Op& op);
  Offsets<tflite::Metadata> metadata();
  void count_tables(uint64_t more);

  const core::Model& model_;
  Plan& plan_;
  flatbuffers::FlatBufferBuilder fbb_;
  Offsets<tflite::Buffer> buffers_;
  Offsets<tflite::OperatorCode> codes_;
  Offsets<tflite::SignatureDef> signatures_;
  std::map<std::pair<Kind, int>, uint32_t> code_of_;
  CustomNames custom_names_;
  std::map<std::string, uint32_t> custom_code_of_;
  std::unordered_map<const stream::Recipe*, uint32_t> buffer_of_, external_id_of_;
  std::string_view runtime_;  // the oldest that can run the model
  uint64_t tables_ = 0;
};

void HeaderBuilder::count_tables(uint64_t more) {
  tables_ += more;
  if (tables_ > stream::kMaxTables)
    throw Unsupported(
        fmt::format("the model needs more than {} flatbuffer tables, which TFLite refuses", stream::kMaxTables),
        "divide the graph");
}

// One payload for each recipe: tensors that share a recipe share their bytes. A constant without elements has an empty
// vector in the header: without any, runtimes would take it for a computed tensor.
uint32_t HeaderBuilder::constant_buffer(const Value& value, const std::string& name) {
  const auto other = model_.stored_with.find(value.constant.get());
  const stream::Recipe* bytes_of = other == model_.stored_with.end() ? value.constant.get() : other->second;
  auto [it, fresh] = buffer_of_.try_emplace(bytes_of, static_cast<uint32_t>(buffers_.size()));
  if (!fresh) return it->second;
  count_tables(1);
  uint64_t bytes = value.constant->bytes();
  if (bytes == 0) return header_buffer({});
  auto start = fbb_.StartTable();
  if (plan_.external) {
    fbb_.AddElement<uint64_t>(tflite::Buffer::VT_OFFSET, kPlaceholder, 0);
    fbb_.AddElement<uint64_t>(tflite::Buffer::VT_SIZE, bytes, 0);
  } else {
    fbb_.AddElement<uint32_t>(tflite::Buffer::VT_DATA, kPlaceholder, 0);
  }
  buffers_.emplace_back(fbb_.EndTable(start));
  plan_.payloads.push_back({value.constant, bytes, it->second, 0, name});
  return it->second;
}

// What a tensor refers to instead of a buffer when its bytes stay where they are; 0 otherwise.
uint32_t HeaderBuilder::external_id(const Value& value) const {
  auto it = external_id_of_.find(value.constant.get());
  return it == external_id_of_.end() ? 0 : it->second;
}

Offsets<tflite::ExternalBufferGroup> HeaderBuilder::external_groups() {
  Offsets<tflite::ExternalBufferGroup> out;
  for (const NamedFile& file : plan_.files)
    out.push_back(tflite::CreateExternalBufferGroup(fbb_, fbb_.CreateString(file.name)));
  count_tables(out.size());
  return out;
}

Offsets<tflite::ExternalBuffer> HeaderBuilder::external_buffers() {
  Offsets<tflite::ExternalBuffer> out;
  for (const InPlace& constant : plan_.in_place)
    out.push_back(tflite::CreateExternalBuffer(fbb_, kExternalId | static_cast<uint32_t>(out.size()), constant.file,
                                               constant.offset, constant.length));
  count_tables(out.size());
  return out;
}

uint32_t HeaderBuilder::header_buffer(std::span<const uint8_t> bytes) {
  fbb_.ForceVectorAlignment(bytes.size(), sizeof(uint8_t), kPayloadAlignment);
  auto data = fbb_.CreateVector(bytes.data(), bytes.size());
  buffers_.push_back(tflite::CreateBuffer(fbb_, data));
  return static_cast<uint32_t>(buffers_.size() - 1);
}

flatbuffers::Offset<tflite::QuantizationParameters> HeaderBuilder::quantization(
    const core::Boxed<core::Quantization>& from) {
  if (!from) return 0;
  count_tables(1);
  const core::Quantization& q = *from;
  auto scale = fbb_.CreateVector(q.scale);
  auto zero_point = q.zero_point.empty() ? fbb_.CreateVector(std::vector<int64_t>(q.scale.size(), 0))
                                         : fbb_.CreateVector(q.zero_point);
  return tflite::CreateQuantizationParameters(fbb_, 0, 0, scale, zero_point, tflite::QuantizationDetails::NONE, 0,
                                              q.axis);
}

flatbuffers::Offset<tflite::Tensor> HeaderBuilder::tensor(const Value& value, const std::string& name) {
  auto type = stream::tensor_type(value.dtype);
  if (!type || value.dtype == stream::DType::kString)
    throw Unsupported(fmt::format("tensors of type {} cannot be written", stream::dtype_name(value.dtype)), {},
                      at(name));
  if (value.constant && (value.constant->dtype != value.dtype || value.constant->dims != value.shape))
    throw Error(Code::kInternal, "a constant's recipe is not of its tensor's type and shape", at(name));
  std::vector<int32_t> shape, signature;
  bool symbolic = false;
  for (core::Dim dim : value.shape) {
    symbolic |= !stream::is_static(dim);
    signature.push_back(stream::is_static(dim) ? narrow(dim, name) : -1);
    shape.push_back(stream::is_static(dim) ? signature.back() : 1);
  }
  const uint32_t external = external_id(value);
  const uint32_t buffer = value.constant && external == 0 ? constant_buffer(value, name) : 0;
  count_tables(1);
  ++plan_.tensors;
  return tflite::CreateTensorDirect(fbb_, &shape, *type, buffer, name.c_str(), quantization(value.quantization), false,
                                    0, symbolic ? &signature : nullptr, true, nullptr, external);
}

// A tensor that is no value of the graph: of one operator alone.
int32_t HeaderBuilder::own_tensor(const core::StatefulBuiltin::Tensor& own, bool is_variable,
                                  Offsets<tflite::Tensor>& tensors) {
  const auto type = stream::tensor_type(own.dtype);
  if (!type) throw Error(Code::kInternal, "a tensor of an operator has a type that TFLite does not have", at(own.name));
  std::vector<int32_t> shape;
  for (core::Dim dim : own.shape) shape.push_back(narrow(dim, own.name));
  count_tables(1);
  ++plan_.tensors;
  tensors.push_back(tflite::CreateTensorDirect(fbb_, &shape, *type, 0, own.name.c_str(), quantization(own.quantization),
                                               is_variable, 0, nullptr, true));
  return static_cast<int32_t>(tensors.size() - 1);
}

uint32_t HeaderBuilder::custom_code(const core::CustomOperator& custom) {
  const std::string& name = custom_names_.of(custom);
  runtime_ = newer_runtime(runtime_, first_runtime(Kind::kCustom, 1));
  auto [it, fresh] = custom_code_of_.try_emplace(name, static_cast<uint32_t>(codes_.size()));
  if (fresh)
    codes_.push_back(tflite::CreateOperatorCodeDirect(fbb_, static_cast<int8_t>(Kind::kCustom), name.c_str(),
                                                      custom.version, tflite::BuiltinOperator::CUSTOM));
  return it->second;
}

uint32_t HeaderBuilder::operator_code(const Graph& graph, const Op& op) {
  if (const auto* custom = std::get_if<core::CustomOptions>(&op.options)) return custom_code(*custom->described);
  int version = op_version(graph, op);
  auto [it, fresh] = code_of_.try_emplace({op.kind, version}, static_cast<uint32_t>(codes_.size()));
  if (!fresh) return it->second;
  // Old readers know only a byte; codes that do not fit it show as the placeholder there.
  auto placeholder = static_cast<int>(tflite::BuiltinOperator::PLACEHOLDER_FOR_GREATER_OP_CODES);
  auto short_code = static_cast<int8_t>(std::min(static_cast<int>(op.kind), placeholder));
  codes_.push_back(
      tflite::CreateOperatorCode(fbb_, short_code, 0, version, static_cast<tflite::BuiltinOperator>(op.kind)));
  runtime_ = newer_runtime(runtime_, first_runtime(op.kind, version));
  return it->second;
}

flatbuffers::Offset<tflite::Operator> HeaderBuilder::operation(const Graph& graph, const Op& op,
                                                               const std::vector<int32_t>& tensor_of,
                                                               Offsets<tflite::Tensor>& tensors) {
  std::vector<int32_t> inputs, outputs, intermediates;
  for (ValueId id : op.inputs) inputs.push_back(id == core::kAbsent ? -1 : tensor_of[static_cast<size_t>(id)]);
  for (ValueId id : op.outputs) outputs.push_back(tensor_of[static_cast<size_t>(id)]);
  // Kernels with weights take one input less instead of an absent bias.
  if (core::weights_of(op.kind) && inputs.back() == -1) inputs.pop_back();
  const auto* with_states = std::get_if<core::StatefulOptions>(&op.options);
  if (with_states) {
    for (const auto& [place, state] : with_states->described->states)
      inputs.at(place) = own_tensor(state, true, tensors);
    for (const auto& one : with_states->described->intermediates)
      intermediates.push_back(own_tensor(one, false, tensors));
  }
  OptionsTable options = options_table(fbb_, graph, op);
  uint32_t code = operator_code(graph, op);
  count_tables(options.table.IsNull() ? 1 : 2);
  ++plan_.operators;
  plan_.transposes += op.kind == Kind::kTranspose;
  // One after the other: the order in which a compiler evaluates arguments would decide about the bytes.
  const auto made_outputs = fbb_.CreateVector(outputs);
  const auto made_inputs = fbb_.CreateVector(inputs);
  const auto made_intermediates =
      intermediates.empty() ? 0 : fbb_.CreateVector(intermediates);  // no list where there are none
  return tflite::CreateOperator(fbb_, code, made_inputs, made_outputs, options.type, options.table, custom_options(op),
                                tflite::CustomOptionsFormat::FLEXBUFFERS, 0, made_intermediates);
}

// Kernels read numbers of up to eight bytes in place.
flatbuffers::Offset<flatbuffers::Vector<uint8_t>> HeaderBuilder::custom_options(const Op& op) {
  const auto* custom = std::get_if<core::CustomOptions>(&op.options);
  if (!custom) return 0;
  const std::vector<uint8_t>& bytes = custom->described->attributes;
  fbb_.ForceVectorAlignment(bytes.size(), sizeof(uint8_t), sizeof(uint64_t));
  return fbb_.CreateVector(bytes);
}

// What the writer needs of a graph: ops in an order in which they can run, and for the main graph outputs that are
// results of different ops, because a signature's names must not be two names of one tensor.
void check_graph(const Graph& graph, bool main) {
  auto fail = [](const std::string& text) { throw Error(Code::kInternal, text); };
  std::vector<bool> defined(graph.values.size(), false), output(graph.values.size(), false);
  for (size_t i = 0; i < graph.values.size(); ++i) defined[i] = graph.values[i].is_constant();
  for (ValueId id : graph.inputs) {
    if (defined[static_cast<size_t>(id)])
      fail(fmt::format("graph input '{}' is a constant or stands twice", graph.at(id).name));
    defined[static_cast<size_t>(id)] = true;
  }
  std::vector<bool> result(graph.values.size(), false);
  for (const Op& op : graph.ops) {
    if (op.kind == Kind::kDead) fail("a dead op reaches the writer");
    if (op.kind == Kind::kTensorList)
      throw Unsupported("the operator has no TFLite form", {}, {.node = graph.origins[op.origin]});
    for (ValueId id : op.inputs)
      if (id != core::kAbsent && !defined[static_cast<size_t>(id)])
        fail(fmt::format("{} '{}' uses a value before it is made", core::kind_name(op.kind), graph.origins[op.origin]));
    for (ValueId id : op.outputs) defined[static_cast<size_t>(id)] = result[static_cast<size_t>(id)] = true;
  }
  for (ValueId id : graph.outputs) {
    auto i = static_cast<size_t>(id);
    if (!defined[i]) fail(fmt::format("graph output '{}' is never made", graph.at(id).name));
    if (main && (!result[i] || output[i]))
      fail(fmt::format("graph output '{}' is not an op's result of its own", graph.at(id).name));
    output[i] = true;
  }
  if (main && (graph.input_names.size() != graph.inputs.size() || graph.output_names.size() != graph.outputs.size()))
    fail("the graph's inputs and outputs are not all named");
}

flatbuffers::Offset<tflite::SignatureDef> HeaderBuilder::signature(const Graph& graph, uint32_t index,
                                                                   const std::string& key,
                                                                   const std::vector<int32_t>& tensor_of) {
  auto maps = [&](const std::vector<ValueId>& ids, const std::vector<std::string>& names) {
    Offsets<tflite::TensorMap> out;
    for (size_t i = 0; i < ids.size(); ++i)
      out.push_back(tflite::CreateTensorMapDirect(fbb_, names[i].c_str(),
                                                  static_cast<uint32_t>(tensor_of[static_cast<size_t>(ids[i])])));
    return out;
  };
  Offsets<tflite::TensorMap> inputs = maps(graph.inputs, graph.input_names);
  Offsets<tflite::TensorMap> outputs = maps(graph.outputs, graph.output_names);
  count_tables(inputs.size() + outputs.size());
  return tflite::CreateSignatureDefDirect(fbb_, &inputs, &outputs, key.c_str(), index);
}

flatbuffers::Offset<tflite::SubGraph> HeaderBuilder::subgraph(size_t index) {
  const Graph& graph = *model_.graphs[index];
  const auto key = model_.signatures.find(index);
  const bool main = model_.signatures.empty() ? index == 0 : key != model_.signatures.end();
  check_graph(graph, main);
  std::vector<std::string> names = tensor_names(graph);
  std::vector<int32_t> tensor_of(graph.values.size(), -1);
  Offsets<tflite::Tensor> tensors;
  for (ValueId id : tensor_order(graph)) {
    tensor_of[static_cast<size_t>(id)] = static_cast<int32_t>(tensors.size());
    const std::string name = std::move(names[static_cast<size_t>(id)]);
    tensors.push_back(tensor(graph.at(id), name));
  }
  Offsets<tflite::Operator> operators;
  for (const Op& op : graph.ops) {
    try {
      operators.push_back(operation(graph, op, tensor_of, tensors));
    } catch (Error& error) {
      error.add_place({.node = graph.origins[op.origin]});
      throw;
    }
  }
  auto indices = [&](const std::vector<ValueId>& ids) {
    std::vector<int32_t> out;
    for (ValueId id : ids) out.push_back(tensor_of[static_cast<size_t>(id)]);
    return out;
  };
  std::vector<int32_t> inputs = indices(graph.inputs), outputs = indices(graph.outputs);
  if (main)
    signatures_.push_back(signature(graph, static_cast<uint32_t>(index),
                                    model_.signatures.empty() ? "serving_default" : key->second, tensor_of));
  return tflite::CreateSubGraphDirect(fbb_, &tensors, &inputs, &outputs, &operators,
                                      graph.name.empty() ? "main" : graph.name.c_str());
}

// Metadata stands in the header in either form: loaders read it before anything else and look nowhere else.
Offsets<tflite::Metadata> HeaderBuilder::metadata() {
  Offsets<tflite::Metadata> out;
  if (plan_.external) runtime_ = newer_runtime(runtime_, kExternalBuffersSince);
  if (!plan_.in_place.empty()) runtime_ = newer_runtime(runtime_, kInPlaceSince);
  plan_.min_runtime = runtime_;
  std::array<uint8_t, kRuntimeVersionBytes> version{};
  std::copy(runtime_.begin(), runtime_.end(), version.begin());
  out.push_back(tflite::CreateMetadataDirect(fbb_, "min_runtime_version", header_buffer(version)));
  if (plan_.external) {
    constexpr std::string_view kOutside = "outside flatbuffers";
    auto bytes = reinterpret_cast<const uint8_t*>(kOutside.data());
    out.push_back(tflite::CreateMetadataDirect(fbb_, "buffer_location", header_buffer({bytes, kOutside.size()})));
  }
  if (model_.notes) {
    out.push_back(tflite::CreateMetadataDirect(fbb_, "TFLITE_METADATA", header_buffer(metadata_buffer(model_))));
    if (!model_.notes->onnx.empty()) {
      const std::string props = onnx_props(*model_.notes);
      const auto* bytes = reinterpret_cast<const uint8_t*>(props.data());
      out.push_back(tflite::CreateMetadataDirect(fbb_, kOnnxPropsEntry, header_buffer({bytes, props.size()})));
    }
  }
  return out;
}

void HeaderBuilder::build() {
  Offsets<tflite::SubGraph> subgraphs;
  for (size_t i = 0; i < model_.graphs.size(); ++i) subgraphs.push_back(subgraph(i));
  Offsets<tflite::Metadata> notes = metadata();
  Offsets<tflite::ExternalBufferGroup> groups = external_groups();
  Offsets<tflite::ExternalBuffer> external = external_buffers();
  std::string description = model_.description.empty() ? "Lowtide " LOWTIDE_VERSION : model_.description;
  fbb_.Finish(tflite::CreateModelDirect(fbb_, kSchemaVersion, &codes_, &subgraphs, description.c_str(), &buffers_,
                                        nullptr, &notes, &signatures_, groups.empty() ? nullptr : &groups,
                                        external.empty() ? nullptr : &external),
              tflite::ModelIdentifier());
  auto header = std::make_shared<flatbuffers::DetachedBuffer>(fbb_.Release());
  plan_.header = std::as_writable_bytes(std::span(header->data(), header->size()));
  plan_.header_memory = std::move(header);
  plan_.custom = custom_names_.uses();
}

}  // namespace

void build_header(const core::Model& model, Plan& plan) { HeaderBuilder(model, plan).build(); }

}  // namespace lowtide::emit
