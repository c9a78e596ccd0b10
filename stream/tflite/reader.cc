// SPDX-License-Identifier: Apache-2.0
#include "stream/tflite/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <new>
#include <set>

#include "schemas/tflite_generated.h"
#include "stream/error.h"
#include "stream/file/known_formats.h"
#include "stream/file/seekable_source.h"
#include "stream/tflite/dtype.h"
#include "stream/tflite/external.h"
#include "stream/tflite/flatbuffer_verifier.h"
#include "stream/tflite/flatbuffer_view.h"
#include "stream/tflite/options.h"

namespace lowtide::stream {
namespace {

constexpr size_t kShortMetadata = 64;
constexpr uint64_t kMostCustomOptions = uint64_t{4} << 20;  // bytes of all that are kept
constexpr uint32_t kVersion = 3;                            // the only version of files with the identifier TFL3

[[noreturn]] void malformed(std::string text) { throw Error(Code::kMalformed, std::move(text)); }

void check_index(int64_t index, uint64_t count, const char* what) {
  if (index < 0 || static_cast<uint64_t>(index) >= count)
    malformed(fmt::format("{} {} does not exist: {}", what, index,
                          count == 0 ? "there are none" : fmt::format("indices are 0..{}", count - 1)));
}

// False when the data are not a plain array of numbers.
bool check_data_bytes(const tfl::Tensor& tensor) {
  if (tensor.is_sparse || tensor.dtype == DType::kUndefined || tensor.dtype == DType::kString) return false;
  if (file_bytes(tensor.dtype, element_count(tensor.shape)) == tensor.data_bytes) return true;
  malformed(fmt::format("its data has {} bytes, which does not fit {} of shape {}", tensor.data_bytes,
                        dtype_name(tensor.dtype), to_string(tensor.shape)));
}

// The folder of the model's other files; empty when the source is not a file.
std::filesystem::path folder_of_source(const Source& source) {
  const std::filesystem::path path = source.path();
  return path.empty() || path.has_parent_path() ? path.parent_path() : ".";
}

class TfliteReader {
 public:
  TfliteReader(std::shared_ptr<Source> source, const TableView& root, const std::filesystem::path& folder,
               Budget& budget)
      : source_(std::move(source)),
        view_(root.view()),
        root_(root),
        codes_(root.tables(tflite::Model::VT_OPERATOR_CODES)),
        buffers_(root.tables(tflite::Model::VT_BUFFERS)),
        subgraphs_(root.tables(tflite::Model::VT_SUBGRAPHS)),
        external_(root, folder.empty() ? folder_of_source(*source_) : folder, budget) {}
  tfl::Model read();

 private:
  struct Bytes {
    uint64_t offset = 0, bytes = 0;
    bool there = false;
  };
  Bytes payload(uint32_t buffer);
  tfl::Tensor tensor(const TableView& from);
  void read_shape(const TableView& from, tfl::Tensor& tensor);
  void read_quantization(const TableView& from, tfl::Tensor& tensor);
  void read_data(const TableView& from, tfl::Tensor& tensor);
  void read_sparsity(const TableView& from, uint64_t values, tfl::Tensor& tensor);
  void read_external(uint32_t id, tfl::Tensor& tensor);
  tfl::Operator operation(const TableView& from, uint64_t tensors);
  std::shared_ptr<const std::vector<uint8_t>> custom_options(uint64_t offset, uint64_t bytes);
  void note_calls(const tfl::Operator& op);
  void check_order(const tfl::Subgraph& graph);
  void check_calls();
  tfl::Subgraph subgraph(const TableView& from);
  tfl::Signature signature(const TableView& from);
  void metadata(const TableView& from);
  template <typename T, typename Read>
  std::vector<T> list(const TablesView& tables, Read&& read);
  static std::vector<int32_t> indices(const TableView& from, TableView::Slot slot, uint64_t count, bool optional);

  std::shared_ptr<Source> source_;
  FlatbufferView& view_;
  TableView root_;
  TablesView codes_, buffers_, subgraphs_;
  ExternalBuffers external_;
  std::map<std::pair<uint64_t, uint64_t>, std::shared_ptr<const std::vector<uint8_t>>> custom_options_;  // by place
  LastOptions last_options_;
  uint64_t custom_options_bytes_ = 0;
  std::vector<std::set<uint32_t>> calls_;  // by subgraph: the subgraphs that its operators call
  uint64_t ignored_signatures_ = 0;        // shape signatures of tensors
  std::string first_ignored_signature_;
  tfl::Model model_;
};

// hold() is called first: a vector may refer to one table many times.
template <typename T, typename Read>
std::vector<T> TfliteReader::list(const TablesView& tables, Read&& read) {
  view_.hold(tables.size() * sizeof(T));
  std::vector<T> out;
  out.reserve(tables.size());
  for (uint32_t i = 0; i < tables.size(); ++i) out.push_back(read(tables[i], i));
  return out;
}

// The bytes of a buffer, inside the flatbuffer or after it.
TfliteReader::Bytes TfliteReader::payload(uint32_t index) {
  using tflite::Buffer;
  check_index(index, buffers_.size(), "buffer");
  const TableView buffer = buffers_[index];
  if (const auto data = buffer.vector(Buffer::VT_DATA, 1)) return {data->offset, data->count, true};
  const auto offset = buffer.number<uint64_t>(Buffer::VT_OFFSET);
  const auto bytes = buffer.number<uint64_t>(Buffer::VT_SIZE);
  if (offset <= 1) return {};
  model_.external_buffers = true;
  check_range(offset, bytes, source_->size(), source_->name());
  return {offset, bytes, true};
}

void TfliteReader::read_external(uint32_t id, tfl::Tensor& out) {
  if (out.is_sparse || out.dtype == DType::kUndefined || out.dtype == DType::kString)
    malformed(
        fmt::format("a tensor of type {}{} cannot be in an external buffer", out.is_sparse ? "sparse " : "", out.type));
  const uint64_t elements = element_count(out.shape);
  out.has_data = true;
  out.data_bytes = file_bytes(out.dtype, elements);
  const ExternalBuffers::Place place = external_.place(id, out.data_bytes);
  if (!place.source) return;
  out.data = recipe::stored(place.source, {{place.offset, out.data_bytes, elements}}, out.dtype, out.shape);
}

void TfliteReader::read_data(const TableView& from, tfl::Tensor& out) {
  const Bytes bytes = payload(from.number<uint32_t>(tflite::Tensor::VT_BUFFER));
  if (const auto id = from.number<uint32_t>(tflite::Tensor::VT_EXTERNAL_BUFFER)) {
    if (bytes.there || out.is_variable) malformed("it has both an external buffer and other data");
    return read_external(id, out);
  }
  bool empty = std::find(out.shape.begin(), out.shape.end(), 0) != out.shape.end();
  // Computed tensors have a buffer without bytes; so do constants without elements.
  if (!bytes.there || (bytes.bytes == 0 && !empty)) return;
  out.has_data = true;
  out.data_bytes = bytes.bytes;
  if (out.is_sparse) read_sparsity(from, bytes.offset, out);
  if (!check_data_bytes(out)) return;
  out.data = recipe::stored(source_, {{bytes.offset, bytes.bytes, element_count(out.shape)}}, out.dtype, out.shape);
}

// One of the three tables with numbers of 32, 16 and 8 bits.
std::optional<tfl::Sparsity::Numbers> sparse_numbers(const TableView& level, TableView::Slot type,
                                                     TableView::Slot list) {
  using tflite::SparseIndexVector;
  int width = 0;
  switch (level.number<SparseIndexVector>(type)) {
    case SparseIndexVector::Int32Vector:
      width = 4;
      break;
    case SparseIndexVector::Uint16Vector:
      width = 2;
      break;
    case SparseIndexVector::Uint8Vector:
      width = 1;
      break;
    default:
      return std::nullopt;
  }
  const std::optional<TableView> table = level.table(list);
  if (!table) return std::nullopt;
  const auto place =
      table->vector(tflite::Int32Vector::VT_VALUES, static_cast<uint64_t>(width));  // in each the same slot
  return tfl::Sparsity::Numbers{place ? place->offset : 0, place ? place->count : 0, width};
}

void TfliteReader::read_sparsity(const TableView& from, uint64_t values, tfl::Tensor& out) {
  using tflite::DimensionMetadata, tflite::SparsityParameters;
  constexpr uint32_t kMostLevels = 32;
  const std::optional<TableView> table = from.table(tflite::Tensor::VT_SPARSITY);
  if (!table) return;
  const TablesView levels = table->tables(SparsityParameters::VT_DIM_METADATA);
  if (levels.size() > kMostLevels) return;
  auto made = std::make_shared<tfl::Sparsity>();
  made->order = table->numbers<int32_t>(SparsityParameters::VT_TRAVERSAL_ORDER);
  made->block_map = table->numbers<int32_t>(SparsityParameters::VT_BLOCK_MAP);
  view_.hold(levels.size() * sizeof(tfl::Sparsity::Level));
  for (uint32_t i = 0; i < levels.size(); ++i) {
    const TableView level = levels[i];
    tfl::Sparsity::Level& read = made->levels.emplace_back();
    read.is_compressed =
        level.number<tflite::DimensionType>(DimensionMetadata::VT_FORMAT) == tflite::DimensionType::SPARSE_CSR;
    read.size = level.number<int32_t>(DimensionMetadata::VT_DENSE_SIZE);
    if (!read.is_compressed) continue;
    const auto segments =
        sparse_numbers(level, DimensionMetadata::VT_ARRAY_SEGMENTS_TYPE, DimensionMetadata::VT_ARRAY_SEGMENTS);
    const auto indices =
        sparse_numbers(level, DimensionMetadata::VT_ARRAY_INDICES_TYPE, DimensionMetadata::VT_ARRAY_INDICES);
    if (!segments || !indices) return;
    read.segments = *segments;
    read.indices = *indices;
  }
  made->source = source_;
  made->values = values;
  out.sparsity = std::move(made);
}

void TfliteReader::read_shape(const TableView& from, tfl::Tensor& out) {
  using tflite::Tensor;
  const std::vector<int32_t> shape = from.numbers<int32_t>(Tensor::VT_SHAPE);
  const std::vector<int32_t> signature = from.numbers<int32_t>(Tensor::VT_SHAPE_SIGNATURE);
  view_.hold((shape.size() + signature.size()) * sizeof(Dim));
  out.shape.assign(shape.begin(), shape.end());
  out.shape_signature.assign(signature.begin(), signature.end());
  if (!is_static(out.shape)) malformed(fmt::format("its shape {} has a negative dimension", to_string(out.shape)));
  const auto is_open_or_equal = [](int32_t of_signature, int32_t size) {
    return of_signature == -1 || of_signature == size;
  };
  if (signature.empty() || std::equal(signature.begin(), signature.end(), shape.begin(), shape.end(), is_open_or_equal))
    return;
  // LiteRT does not look at it.
  if (ignored_signatures_++ == 0)
    first_ignored_signature_ = fmt::format("'{}', which has {} for the shape {}", out.name,
                                           to_string(out.shape_signature), to_string(out.shape));
  out.shape_signature.clear();
}

// The runtimes require one scale and zero point, or one of each for every index of the axis.
void TfliteReader::read_quantization(const TableView& from, tfl::Tensor& out) {
  using tflite::QuantizationParameters;
  const std::optional<TableView> table = from.table(tflite::Tensor::VT_QUANTIZATION);
  if (!table) return;
  tfl::Quantization q;
  q.scale = table->numbers<float>(QuantizationParameters::VT_SCALE);
  q.other_form = table->number<uint8_t>(QuantizationParameters::VT_DETAILS_TYPE) != 0;
  if (q.scale.empty() && !q.other_form) return;
  if (table->number<tflite::QuantizationDetails>(QuantizationParameters::VT_DETAILS_TYPE) ==
      tflite::QuantizationDetails::BlockwiseQuantization)
    if (const auto blocks = table->table(QuantizationParameters::VT_DETAILS)) {
      q.block_scales = blocks->number<int32_t>(tflite::BlockwiseQuantization::VT_SCALES);
      q.block_zero_points = blocks->number<int32_t>(tflite::BlockwiseQuantization::VT_ZERO_POINTS);
      q.block_size = blocks->number<int32_t>(tflite::BlockwiseQuantization::VT_BLOCK_SIZE);
    }
  q.min = table->numbers<float>(QuantizationParameters::VT_MIN);
  q.max = table->numbers<float>(QuantizationParameters::VT_MAX);
  q.zero_point = table->numbers<int64_t>(QuantizationParameters::VT_ZERO_POINT);
  q.axis = table->number<int32_t>(QuantizationParameters::VT_QUANTIZED_DIMENSION);
  if (!q.other_form) {
    if (q.zero_point.size() != q.scale.size())
      malformed(fmt::format("it has {} scales, but {} zero points", q.scale.size(), q.zero_point.size()));
    if (q.scale.size() != 1 && out.shape.empty())
      malformed(fmt::format("it has {} scales, and no axis", q.scale.size()));
    if (q.axis < 0 || (!out.shape.empty() && static_cast<size_t>(q.axis) >= out.shape.size()))
      malformed(
          fmt::format("quantized_dimension {} is out of range for a tensor of rank {}", q.axis, out.shape.size()));
    if (q.scale.size() != 1 && q.scale.size() != static_cast<uint64_t>(out.shape[static_cast<size_t>(q.axis)]))
      malformed(fmt::format("it has {} scales, which does not fit axis {} of shape {}", q.scale.size(), q.axis,
                            to_string(out.shape)));
  }
  out.quantization = std::make_unique<tfl::Quantization>(std::move(q));
}

tfl::Tensor TfliteReader::tensor(const TableView& from) {
  using tflite::Tensor;
  tfl::Tensor out;
  out.name = from.text(Tensor::VT_NAME);
  const auto type = from.number<tflite::TensorType>(Tensor::VT_TYPE);
  out.type = tflite::EnumNameTensorType(type);
  out.dtype = dtype_of(type);
  out.is_variable = from.number<uint8_t>(Tensor::VT_IS_VARIABLE) != 0;
  out.is_sparse = from.has(Tensor::VT_SPARSITY);
  try {
    read_shape(from, out);
    read_quantization(from, out);
    read_data(from, out);
  } catch (Error& error) {
    error.add_place({.slot = fmt::format("tensor '{}'", out.name)});
    throw;
  }
  return out;
}

std::vector<int32_t> TfliteReader::indices(const TableView& from, TableView::Slot slot, uint64_t count, bool optional) {
  std::vector<int32_t> out = from.numbers<int32_t>(slot);
  for (int32_t index : out)
    if (!(optional && index == -1)) check_index(index, count, "tensor");
  return out;
}

// Options refer to subgraphs in fields of these names.
void TfliteReader::note_calls(const tfl::Operator& op) {
  auto note = [&](int64_t index) {
    check_index(index, subgraphs_.size(), "subgraph");
    calls_.back().insert(static_cast<uint32_t>(index));
  };
  for (const tfl::Option& option : op.options) {
    if (option.name.find("subgraph") == std::string::npos && option.name != "called_computations") continue;
    if (const auto* one = std::get_if<int64_t>(&option.value)) note(*one);
    if (const auto* many = std::get_if<std::vector<int64_t>>(&option.value))
      std::for_each(many->begin(), many->end(), note);
  }
}

// Operators may share one place; those of a damaged file may name many that overlap.
std::shared_ptr<const std::vector<uint8_t>> TfliteReader::custom_options(uint64_t offset, uint64_t bytes) {
  auto [known, is_new] = custom_options_.try_emplace({offset, bytes});
  if (!is_new) return known->second;
  if (bytes > kMostCustomOptions - custom_options_bytes_) return nullptr;
  custom_options_bytes_ += bytes;
  std::vector<uint8_t> out(bytes);
  source_->read_at(offset, std::as_writable_bytes(std::span(out)));
  known->second = std::make_shared<const std::vector<uint8_t>>(std::move(out));
  return known->second;
}

tfl::Operator TfliteReader::operation(const TableView& from, uint64_t tensors) {
  using tflite::Operator;
  using tflite::OperatorCode;
  const auto index = from.number<uint32_t>(Operator::VT_OPCODE_INDEX);
  check_index(index, codes_.size(), "operator code");
  const TableView code = codes_[index];
  tfl::Operator out;
  out.code = std::max<int32_t>(code.number<int32_t>(OperatorCode::VT_BUILTIN_CODE),
                               code.number<int8_t>(OperatorCode::VT_DEPRECATED_BUILTIN_CODE));
  out.version = code.number<int32_t>(OperatorCode::VT_VERSION, 1);
  if (out.code == static_cast<int32_t>(tflite::BuiltinOperator::CUSTOM)) {
    out.name = code.text(OperatorCode::VT_CUSTOM_CODE);
    if (out.name.empty()) malformed("a CUSTOM operator has no name");
  } else {
    const char* name = tflite::EnumNameBuiltinOperator(static_cast<tflite::BuiltinOperator>(out.code));
    out.name = *name ? name : fmt::format("BUILTIN_{}", out.code);
  }
  out.inputs = indices(from, Operator::VT_INPUTS, tensors, true);
  out.outputs = indices(from, Operator::VT_OUTPUTS, tensors, false);
  out.intermediates = indices(from, Operator::VT_INTERMEDIATES, tensors, true);
  VectorPlace options = from.vector(Operator::VT_CUSTOM_OPTIONS, 1).value_or(VectorPlace());
  out.custom_bytes = options.count;
  const auto large = from.number<uint64_t>(Operator::VT_LARGE_CUSTOM_OPTIONS_OFFSET);
  if (large > 1) {
    out.custom_bytes = from.number<uint64_t>(Operator::VT_LARGE_CUSTOM_OPTIONS_SIZE);
    check_range(large, out.custom_bytes, source_->size(), source_->name());
    options.offset = large;
  }
  if (out.custom_bytes > 0) out.custom_options = custom_options(options.offset, out.custom_bytes);
  read_options(from, last_options_, out);
  note_calls(out);
  return out;
}

// Checks that every tensor has one source, and that the operators are in topological order, so there is no cycle. An
// operator may write to a constant, as LiteRT runs it: whoever needs the value must look (layout/raise does).
void TfliteReader::check_order(const tfl::Subgraph& graph) {
  constexpr int64_t kNone = -2, kGiven = -1;  // else the operator that writes it
  std::vector<int64_t> source(graph.tensors.size(), kNone);
  auto source_of = [&](int32_t tensor) -> int64_t& { return source[static_cast<size_t>(tensor)]; };
  auto name_of = [&](int32_t tensor) -> const std::string& { return graph.tensors[static_cast<size_t>(tensor)].name; };
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    const tfl::Tensor& tensor = graph.tensors[i];
    const bool is_empty = std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end();
    if (tensor.has_data || tensor.is_variable || is_empty) source[i] = kGiven;
  }
  for (int32_t input : graph.inputs) source_of(input) = kGiven;
  for (size_t i = 0; i < graph.operators.size(); ++i) {
    const tfl::Operator& op = graph.operators[i];
    for (int32_t input : op.inputs)
      if (input >= 0 && source_of(input) == kNone)
        malformed(fmt::format("operator {} reads tensor '{}', which no earlier operator writes", i, name_of(input)));
    for (int32_t output : op.outputs) {
      const tfl::Tensor& tensor = graph.tensors[static_cast<size_t>(output)];
      const int64_t before = source_of(output);
      if (before >= 0) malformed(fmt::format("operators {} and {} both write tensor '{}'", before, i, tensor.name));
      if (std::find(graph.inputs.begin(), graph.inputs.end(), output) != graph.inputs.end())
        malformed(fmt::format("operator {} writes to the input '{}'", i, tensor.name));
      source_of(output) = static_cast<int64_t>(i);
    }
  }
  for (int32_t output : graph.outputs)
    if (source_of(output) == kNone) malformed(fmt::format("no operator writes the output '{}'", name_of(output)));
}

// A subgraph that calls itself, directly or not, would never end. Subgraphs without (remaining) callers are removed in
// turn; what remains is a cycle.
void TfliteReader::check_calls() {
  std::vector<size_t> callers(calls_.size(), 0);
  for (const auto& called : calls_)
    for (uint32_t to : called) ++callers[to];
  std::vector<uint32_t> free;
  for (uint32_t i = 0; i < calls_.size(); ++i)
    if (callers[i] == 0) free.push_back(i);
  for (size_t i = 0; i < free.size(); ++i)
    for (uint32_t to : calls_[free[i]])
      if (--callers[to] == 0) free.push_back(to);
  if (free.size() == calls_.size()) return;
  const auto in_cycle = std::find_if(callers.begin(), callers.end(), [](size_t count) { return count > 0; });
  malformed(fmt::format("subgraph {} is part of a cycle of calls", in_cycle - callers.begin()));
}

tfl::Subgraph TfliteReader::subgraph(const TableView& from) {
  using tflite::SubGraph;
  tfl::Subgraph out;
  calls_.emplace_back();
  out.name = from.text(SubGraph::VT_NAME);
  out.tensors = list<tfl::Tensor>(from.tables(SubGraph::VT_TENSORS),
                                  [&](const TableView& table, uint32_t) { return tensor(table); });
  const uint64_t tensors = out.tensors.size();
  out.operators = list<tfl::Operator>(from.tables(SubGraph::VT_OPERATORS), [&](const TableView& table, uint32_t i) {
    try {
      return operation(table, tensors);
    } catch (Error& error) {
      error.add_place({.slot = fmt::format("operator {} of subgraph '{}'", i, out.name)});
      throw;
    }
  });
  try {
    out.inputs = indices(from, SubGraph::VT_INPUTS, tensors, false);
    out.outputs = indices(from, SubGraph::VT_OUTPUTS, tensors, false);
    check_order(out);
  } catch (Error& error) {
    error.add_place({.slot = fmt::format("subgraph '{}'", out.name)});
    throw;
  }
  return out;
}

tfl::Signature TfliteReader::signature(const TableView& from) {
  using tflite::SignatureDef;
  using tflite::TensorMap;
  tfl::Signature out;
  out.key = from.text(SignatureDef::VT_SIGNATURE_KEY);
  out.subgraph = from.number<uint32_t>(SignatureDef::VT_SUBGRAPH_INDEX);
  check_index(out.subgraph, model_.subgraphs.size(), "subgraph of a signature");
  auto read = [&](TableView::Slot slot) {
    return list<std::pair<std::string, uint32_t>>(from.tables(slot), [&](const TableView& map, uint32_t) {
      const auto tensor = map.number<uint32_t>(TensorMap::VT_TENSOR_INDEX);
      check_index(tensor, model_.subgraphs[out.subgraph].tensors.size(), "tensor of a signature");
      return std::pair(map.text(TensorMap::VT_NAME), tensor);
    });
  };
  out.inputs = read(SignatureDef::VT_INPUTS);
  out.outputs = read(SignatureDef::VT_OUTPUTS);
  return out;
}

void TfliteReader::metadata(const TableView& from) {
  Bytes bytes = payload(from.number<uint32_t>(tflite::Metadata::VT_BUFFER));
  std::string value = fmt::format("{} bytes", bytes.bytes);
  if (bytes.bytes <= kShortMetadata) {
    value.resize(bytes.bytes);
    source_->read_at(bytes.offset, std::as_writable_bytes(std::span(value)));
    value.resize(std::min(value.size(), value.find('\0')));
  }
  model_.metadata[from.text(tflite::Metadata::VT_NAME)] = value;
}

tfl::Model TfliteReader::read() {
  using tflite::Model;
  model_.path = source_->name();
  model_.file_bytes = source_->size();
  model_.version = root_.number<uint32_t>(Model::VT_VERSION);
  if (model_.version != kVersion)
    throw Error(Code::kUnsupported,
                fmt::format("version {} of the format is not supported, only {}", model_.version, kVersion));
  model_.description = root_.text(Model::VT_DESCRIPTION);
  if (subgraphs_.size() == 0) malformed("the model has no subgraph");
  model_.subgraphs = list<tfl::Subgraph>(subgraphs_, [&](const TableView& table, uint32_t) { return subgraph(table); });
  check_calls();
  model_.signatures = list<tfl::Signature>(root_.tables(Model::VT_SIGNATURE_DEFS),
                                           [&](const TableView& table, uint32_t) { return signature(table); });
  const TablesView metadata_tables = root_.tables(Model::VT_METADATA);
  for (uint32_t i = 0; i < metadata_tables.size(); ++i) metadata(metadata_tables[i]);
  model_.external_files = std::move(external_).files();
  if (ignored_signatures_ > 0)
    model_.notes.push_back(
        fmt::format("shape_signature of {} tensor{} does not fit the shape, first of {}; it is ignored, as by LiteRT",
                    ignored_signatures_, ignored_signatures_ == 1 ? "" : "s", first_ignored_signature_));
  source_->check_unchanged();
  return std::move(model_);
}

void check_identifier(std::span<const std::byte> first, const std::string& name) {
  refuse_other_formats(first, kTfliteModel, name);
  if (!begins_like_tflite(first))
    throw Error(Code::kMalformed, "the file is not a TFLite model (it lacks the identifier TFL3)", {.file = name});
}

}  // namespace

std::shared_ptr<Source> open_tflite(const std::filesystem::path& path, Spill& spill, Budget& budget) {
  auto look = [&](std::span<const std::byte> first) { check_identifier(first, path.string()); };
  return open_decompressed(path, spill, budget, look);
}

tfl::Model read_tflite(const std::filesystem::path& path, Budget& budget, const SpillOptions& spill_options) {
  Spill spill(spill_options);
  return read_tflite(open_tflite(path, spill, budget), budget);
}

tfl::Model read_tflite(std::shared_ptr<Source> source, Budget& budget, const std::filesystem::path& folder) {
  const std::string name = source->name();
  try {
    check_identifier(first_bytes(*source), name);
    FlatbufferView view(*source, budget);
    verify_flatbuffer(view.root(), *tflite::ModelTypeTable());
    return TfliteReader(std::move(source), view.root(), folder, budget).read();
  } catch (Error& error) {
    error.add_place({.file = name});
    throw;
  } catch (const std::bad_alloc&) {
    throw Error(Code::kBudget, "the system does not have enough memory for the graph", {.file = name});
  }
}

}  // namespace lowtide::stream
