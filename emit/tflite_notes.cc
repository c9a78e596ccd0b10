// SPDX-License-Identifier: Apache-2.0
#include "emit/tflite_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "emit/json_text.h"
#include "schemas/tflite_metadata_generated.h"
#include "stream/counted.h"
#include "stream/error.h"

namespace lowtide::emit {
namespace {

namespace meta = tflite::meta;
using stream::Code;
using stream::Error;
template <typename T>
using NoteOffsets = std::vector<flatbuffers::Offset<T>>;

constexpr const char* kParserVersion = "1.0.0";  // the oldest that knows all of these fields

flatbuffers::Offset<flatbuffers::String> text_or_none(flatbuffers::FlatBufferBuilder& fbb, const std::string& text) {
  return text.empty() ? flatbuffers::Offset<flatbuffers::String>() : fbb.CreateString(text);
}

size_t label_count(const std::string& labels) {
  const auto lines = static_cast<size_t>(std::count(labels.begin(), labels.end(), '\n'));
  return lines + (labels.empty() || labels.back() == '\n' ? 0 : 1);
}

// The output whose last axis the labels name.
std::optional<size_t> labelled_output(const core::Graph& graph, const std::string& labels) {
  if (labels.empty()) return std::nullopt;
  const auto count = static_cast<core::Dim>(label_count(labels));
  std::vector<size_t> found;
  std::string extents;
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const core::Shape& shape = graph.at(graph.outputs[i]).shape;
    extents += fmt::format("{}{} {}", i ? ", " : "", graph.output_names[i], stream::to_string(shape));
    if (!shape.empty() && shape.back() == count) found.push_back(i);
  }
  if (found.size() != 1)
    throw Error(Code::kUsage,
                fmt::format("--labels: there {} {}, and {} has a last axis of that size (outputs: {})",
                            count == 1 ? "is" : "are", stream::counted(static_cast<uint64_t>(count), "label"),
                            found.empty() ? "no output" : "more than one output", extents));
  return found[0];
}

flatbuffers::Offset<meta::TensorMetadata> image_note(flatbuffers::FlatBufferBuilder& fbb, const std::string& name,
                                                     const core::ModelNotes::Normalization& normalization) {
  const auto color = normalization.channels == 3   ? meta::ColorSpaceType::RGB
                     : normalization.channels == 1 ? meta::ColorSpaceType::GRAYSCALE
                                                   : meta::ColorSpaceType::UNKNOWN;
  const auto image = meta::CreateImageProperties(fbb, color);
  const auto content = meta::CreateContent(fbb, meta::ContentProperties::ImageProperties, image.Union());
  const auto options = meta::CreateNormalizationOptionsDirect(fbb, &normalization.mean, &normalization.std);
  const NoteOffsets<meta::ProcessUnit> units = {
      meta::CreateProcessUnit(fbb, meta::ProcessUnitOptions::NormalizationOptions, options.Union())};
  return meta::CreateTensorMetadataDirect(fbb, name.c_str(), nullptr, nullptr, content, &units);
}

}  // namespace

std::vector<uint8_t> metadata_buffer(const core::Model& model) {
  const core::ModelNotes& notes = *model.notes;
  const core::Graph& graph = *model.graphs[0];
  const std::optional<size_t> labelled = labelled_output(graph, notes.labels);
  flatbuffers::FlatBufferBuilder fbb;
  NoteOffsets<meta::TensorMetadata> inputs, outputs;
  for (const std::string& name : graph.input_names) {
    const auto found = notes.inputs.find(name);
    inputs.push_back(found == notes.inputs.end() ? meta::CreateTensorMetadataDirect(fbb, name.c_str())
                                                 : image_note(fbb, name, found->second));
  }
  for (size_t i = 0; i < graph.output_names.size(); ++i) {
    NoteOffsets<meta::AssociatedFile> files;
    if (labelled == i)
      files.push_back(meta::CreateAssociatedFileDirect(fbb, std::string(kLabelFile).c_str(), "Labels of the last axis.",
                                                       meta::AssociatedFileType::TENSOR_AXIS_LABELS));
    outputs.push_back(meta::CreateTensorMetadataDirect(fbb, graph.output_names[i].c_str(), nullptr, nullptr, 0, nullptr,
                                                       0, files.empty() ? nullptr : &files));
  }
  const NoteOffsets<meta::SubGraphMetadata> graphs = {
      meta::CreateSubGraphMetadataDirect(fbb, graph.name.c_str(), nullptr, &inputs, &outputs)};
  const auto name = text_or_none(fbb, notes.name), description = text_or_none(fbb, notes.description),
             version = text_or_none(fbb, notes.version), author = text_or_none(fbb, notes.author),
             license = text_or_none(fbb, notes.license), parser = fbb.CreateString(kParserVersion);
  fbb.Finish(
      meta::CreateModelMetadata(fbb, name, description, version, fbb.CreateVector(graphs), author, license, 0, parser),
      meta::ModelMetadataIdentifier());
  return {fbb.GetBufferPointer(), fbb.GetBufferPointer() + fbb.GetSize()};
}

std::string onnx_props(const core::ModelNotes& notes) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [key, value] : notes.onnx) json[key] = value;
  return json_line(json);
}

// ---- The archive: a local header and the data, the directory, the end record ----

namespace {

uint32_t crc32(std::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) {
    crc ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

class ArchiveBytes {
 public:
  void u16(uint64_t value) { little_endian(value, 2); }
  void u32(uint64_t value) { little_endian(value, 4); }
  void text(std::string_view text) {
    for (const char letter : text) bytes.push_back(static_cast<std::byte>(letter));
  }
  std::vector<std::byte> bytes;

 private:
  void little_endian(uint64_t value, int count) {
    for (int i = 0; i < count; ++i) bytes.push_back(static_cast<std::byte>(value >> (8 * i) & 0xff));
  }
};

}  // namespace

std::vector<std::byte> label_archive(const std::string& labels, uint64_t position, uint16_t comment) {
  constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50;
  constexpr uint16_t kVersion = 10, kStored = 0, kMidnight = 0, kFirstOf1980 = 0x21;
  if (position > std::numeric_limits<uint32_t>::max() - labels.size() - 1024)
    throw Error(Code::kUnsupported, "labels cannot be stored in a file of more than 4 GiB");
  const uint32_t crc = crc32(labels);
  ArchiveBytes out;
  auto common = [&] {
    for (const uint16_t field : {kVersion, uint16_t{0}, kStored, kMidnight, kFirstOf1980}) out.u16(field);
    for (const uint64_t field : {uint64_t{crc}, uint64_t{labels.size()}, uint64_t{labels.size()}}) out.u32(field);
    out.u16(kLabelFile.size());
    out.u16(0);  // extra fields
  };
  out.u32(kLocal);
  common();
  out.text(kLabelFile);
  out.text(labels);
  const size_t directory = out.bytes.size();
  out.u32(kCentral);
  out.u16(kVersion);
  common();
  for (int i = 0; i < 3; ++i) out.u16(0);  // comment, disk, internal attributes
  out.u32(0);                              // external attributes
  out.u32(position);
  out.text(kLabelFile);
  const size_t directory_bytes = out.bytes.size() - directory;
  out.u32(kEnd);
  for (const uint16_t field : {0, 0, 1, 1}) out.u16(field);  // disks, entries
  out.u32(directory_bytes);
  out.u32(position + directory);
  out.u16(comment);
  return std::move(out.bytes);
}

}  // namespace lowtide::emit
