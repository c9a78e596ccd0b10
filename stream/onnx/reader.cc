// SPDX-License-Identifier: Apache-2.0
#include "stream/onnx/reader.h"

#include <fmt/format.h>

#include <limits>
#include <new>
#include <set>
#include <span>
#include <string_view>
#include <tuple>

#include "schemas/onnx.pb.h"
#include "stream/error.h"
#include "stream/file/known_formats.h"
#include "stream/file/standard_input.h"
#include "stream/file/zstd_source.h"
#include "stream/onnx/parser.h"

namespace lowtide::stream {
namespace {

namespace pb = ::onnx;

// Older versions of the file format have no opset imports: all operators have opset 1.
constexpr int64_t kFirstIrWithOpsets = pb::IR_VERSION_2017_11_3;

// What is wrong in bytes that could not be read is not the model's fault.
onnx::Model walk(const std::shared_ptr<Source>& source, ExternalFiles* files, Budget& budget) {
  OnnxParser parser(source, files, budget);
  try {
    onnx::Model model = parser.model();
    parser.check();
    return model;
  } catch (const Error&) {
    parser.check();
    throw;
  }
}

onnx::Model parse(std::shared_ptr<Source> source, ExternalFiles* files, const std::string& path, Budget& budget) {
  try {
    onnx::Model model = walk(source, files, budget);
    model.path = path;
    model.file_bytes = source->size();
    model.sources.push_back(std::move(source));
    if (files != nullptr) {
      for (auto& file : files->sources()) model.sources.push_back(std::move(file));
    }
    for (const auto& file : model.sources) file->check_unchanged();
    return model;
  } catch (Error& error) {
    error.add_place({.file = path});
    throw;
  } catch (const std::bad_alloc&) {
    throw Error(Code::kBudget, "the system does not have enough memory for the graph", {.file = path});
  }
}

// Refuses decompressed data that cannot start with a protobuf field; for uncompressed files the parser does.
void check_first_tag(std::span<const std::byte> first, const std::string& name) {
  if (first.empty()) return;  // the parser reports it
  const auto tag = std::to_integer<unsigned>(first[0]);
  constexpr unsigned kGroupStart = 3, kFixed32 = 5;  // wire types: groups, and the last valid one
  const unsigned wire = tag & 7;
  if (tag >> 3 == 0 || wire == kGroupStart || wire == kGroupStart + 1 || wire > kFixed32)
    throw Error(Code::kMalformed,
                fmt::format("not a protobuf message: the decompressed data begin with byte {:#04x}", tag),
                {.file = name});
}

void clear_places(onnx::Graph& graph);

void clear_places(std::vector<onnx::Node>& nodes) {
  for (onnx::Node& node : nodes) {
    node.place = {};
    for (onnx::Attribute& attribute : node.attributes)
      for (const auto& body : attribute.graphs) clear_places(*body);
  }
}

void clear_places(onnx::Graph& graph) {
  clear_places(graph.nodes);
  for (auto* list : {&graph.inputs, &graph.outputs, &graph.value_info})
    for (onnx::ValueInfo& info : *list) info.place = {};
}

// Nothing may be copied from the file: what refers to a name must say it as it was read.
void clear_places(onnx::Model& model) {
  clear_places(model.graph);
  for (onnx::Function& function : model.functions) {
    function.place = {};
    clear_places(function.nodes);
  }
}

}  // namespace

std::string canonical_domain(std::string domain) { return domain == "ai.onnx" ? "" : std::move(domain); }

std::string shown_path(const std::filesystem::path& path) {
  return path == "-" ? std::string(kStandardInput) : path.string();
}

onnx::Model read_onnx(const std::filesystem::path& path, Budget& budget, const SpillOptions& spill_options,
                      Access access, const std::filesystem::path& follow) {
  Spill spill(spill_options), piped(spill_options);
  const bool is_standard = path == "-";
  const std::string name = shown_path(path);
  std::shared_ptr<Source> source = is_standard ? open_standard_input(piped, access) : open_file(path, access);
  if (is_standard ? begins_like_zstd(*source) : path.extension() == ".zst") {
    source = decompress(*source, spill, budget, [&](std::span<const std::byte> first) {
      refuse_other_formats(first, kOnnxModel, name);
      check_first_tag(first, name);
    });
  } else {
    refuse_other_formats(first_bytes(*source), kOnnxModel, name);
  }
  if (is_standard) return parse(std::move(source), nullptr, name, budget);
  ExternalFiles files(path.has_parent_path() ? path.parent_path() : ".", spill, budget, access, follow);
  return parse(std::move(source), &files, name, budget);
}

onnx::Model read_onnx(std::shared_ptr<Source> source, const std::filesystem::path& folder, Budget& budget) {
  const std::string name = source->name();
  if (folder.empty()) return parse(std::move(source), nullptr, name, budget);
  Spill spill({});
  ExternalFiles files(folder, spill, budget);
  return parse(std::move(source), &files, name, budget);
}

onnx::Model OnnxParser::model() {
  onnx::Model model;
  bool has_graph = false;
  Message m(wire_, wire_.all());
  while (m.next()) {
    switch (m.field()) {
      case pb::ModelProto::kIrVersionFieldNumber:
        model.ir_version = m.int64();
        break;
      case pb::ModelProto::kProducerNameFieldNumber:
        model.producer_name = m.text();
        break;
      case pb::ModelProto::kProducerVersionFieldNumber:
        model.producer_version = m.text();
        break;
      case pb::ModelProto::kDomainFieldNumber:
        model.domain = m.text();
        break;
      case pb::ModelProto::kModelVersionFieldNumber:
        model.model_version = m.int64();
        break;
      case pb::ModelProto::kDocStringFieldNumber:
        model.doc_string = m.text();
        break;
      case pb::ModelProto::kOpsetImportFieldNumber:
        opset(m.body(), model.opsets, &model.notes);
        break;
      case pb::ModelProto::kMetadataPropsFieldNumber: {
        auto [key, value] = key_value(m.body());
        model.metadata[std::move(key)] = std::move(value);
        break;
      }
      case pb::ModelProto::kFunctionsFieldNumber:
        model.functions.push_back(function(m.body()));
        break;
      case pb::ModelProto::kGraphFieldNumber:
        has_graph = true;
        graph(m.body(), model.graph);
        break;
      default:
        break;
    }
  }
  if (model.ir_version <= 0) wire_.fail(0, "the file has no ir_version: it is not an ONNX model");
  // IR versions are counted; larger numbers are kept for versions of another form (ONNX's IR.md).
  if (model.ir_version > std::numeric_limits<int32_t>::max())
    throw Error(Code::kUnsupported, fmt::format("ir_version {} is not supported: the newest known one is {}",
                                                model.ir_version, static_cast<int>(pb::IR_VERSION)));
  // All that the model uses must be known: operators and attributes are looked at one by one.
  if (model.ir_version > pb::IR_VERSION)
    model.notes.push_back(
        fmt::format("ir_version {} is newer than {}, the newest that is known: the file was read as {}",
                    model.ir_version, static_cast<int>(pb::IR_VERSION), static_cast<int>(pb::IR_VERSION)));
  if (!has_graph) wire_.fail(0, "the model has no graph (is the file truncated?)");
  if (model.opsets.empty()) {
    if (model.ir_version >= kFirstIrWithOpsets) wire_.fail(0, "the model has no opset_import (is the file truncated?)");
    model.opsets[""] = 1;
  }
  check_functions(model.functions);
  if (wire_.has_changed_names()) clear_places(model);
  model.external_bytes = external_bytes_;
  return model;
}

void OnnxParser::opset(Range body, std::map<std::string, int64_t>& opsets, std::vector<std::string>* notes) {
  std::string domain;
  int64_t version = 0;
  Message m(wire_, body);
  while (m.next()) {
    if (m.field() == pb::OperatorSetIdProto::kDomainFieldNumber) domain = m.name();
    if (m.field() == pb::OperatorSetIdProto::kVersionFieldNumber) version = m.int64();
  }
  domain = canonical_domain(std::move(domain));
  if (version <= 0)
    wire_.fail(body.begin, fmt::format("opset_import of domain '{}' has the invalid version {}", domain, version));
  int64_t& known = opsets.emplace(domain, version).first->second;
  if (known == version) return;
  const std::string name = domain.empty() ? "ai.onnx" : domain;
  if (notes == nullptr)
    wire_.fail(body.begin, fmt::format("domain '{}' is imported twice, with different versions", name));
  notes->push_back(
      fmt::format("domain '{}' is imported with opset {} and again with opset {}: the last one counts, as in "
                  "ONNX Runtime",
                  name, known, version));
  known = version;
}

std::pair<std::string, std::string> OnnxParser::key_value(Range body) {
  std::pair<std::string, std::string> entry;
  Message m(wire_, body);
  while (m.next()) {
    if (m.field() == pb::StringStringEntryProto::kKeyFieldNumber) entry.first = m.text();
    if (m.field() == pb::StringStringEntryProto::kValueFieldNumber) entry.second = m.text();
  }
  return entry;
}

onnx::Function OnnxParser::function(Range body) {
  onnx::Function function;
  function.place = body;
  in_function_ = true;
  Message m(wire_, body);
  while (m.next()) {
    switch (m.field()) {
      case pb::FunctionProto::kNameFieldNumber:
        function.name = m.name();
        break;
      case pb::FunctionProto::kDomainFieldNumber:
        function.domain = canonical_domain(m.name());
        break;
      case pb::FunctionProto::kOverloadFieldNumber:
        function.overload = m.name();
        break;
      case pb::FunctionProto::kInputFieldNumber:
        function.inputs.push_back(m.name());
        break;
      case pb::FunctionProto::kOutputFieldNumber:
        function.outputs.push_back(m.name());
        break;
      case pb::FunctionProto::kAttributeFieldNumber:
        function.attributes.push_back(m.name());
        break;
      case pb::FunctionProto::kAttributeProtoFieldNumber:
        function.attribute_defaults.push_back(attribute(m.body()));
        break;
      case pb::FunctionProto::kNodeFieldNumber:
        function.nodes.push_back(node(m.body()));
        break;
      case pb::FunctionProto::kOpsetImportFieldNumber:
        opset(m.body(), function.opsets, nullptr);
        break;
      default:
        break;
    }
  }
  in_function_ = false;
  if (function.name.empty()) wire_.fail(body.begin, "the function has no name");
  return function;
}

void OnnxParser::check_functions(const std::vector<onnx::Function>& functions) {
  std::set<std::tuple<std::string_view, std::string_view, std::string_view>> names;
  for (const onnx::Function& function : functions) {
    if (!names.emplace(function.domain, function.name, function.overload).second) {
      throw Error(Code::kMalformed, fmt::format("two functions are named '{}.{}'", function.domain, function.name));
    }
  }
}

}  // namespace lowtide::stream
