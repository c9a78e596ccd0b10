#include "stream/tflite_reader.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>

#include "schemas/tflite_generated.h"
#include "stream/error.h"
#include "stream/file.h"
#include "stream/tflite_dtype.h"
#include "stream/tflite_options.h"

namespace lowtide::stream {
namespace {

constexpr uint64_t kMaxFlatbuffer = (uint64_t{1} << 31) - 2;
constexpr int kMaxDepth = 64;
constexpr int kMaxTables = 16'000'000;  // more than the runtimes allow; bounds the verifier's time
constexpr size_t kShortMetadata = 64;

// The front of the file. The trap: should the file shrink meanwhile, the process gets SIGBUS; the check of its identity
// afterwards cannot prevent that, only notice what else changed.
class Map {
 public:
  explicit Map(const Source& source) : bytes_(std::min(source.size(), kMaxFlatbuffer)) {
    auto descriptor = source.descriptor();
    if (!descriptor || bytes_ == 0) throw Error(Code::kMalformed, "the file is empty");
    void* data = mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE | MAP_NORESERVE, descriptor->number(), 0);
    if (data == MAP_FAILED)
      throw Error(Code::kBudget, fmt::format("the address space has no room to map {} bytes (see ulimit -v)", bytes_));
    data_ = static_cast<const uint8_t*>(data);
    madvise(data, bytes_, MADV_RANDOM);  // payloads between the tables are not to be read ahead
  }
  ~Map() { munmap(const_cast<uint8_t*>(data_), bytes_); }
  Map(const Map&) = delete;
  Map& operator=(const Map&) = delete;
  const uint8_t* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  const uint8_t* data_ = nullptr;
  uint64_t bytes_;
};

[[noreturn]] void malformed(std::string text) { throw Error(Code::kMalformed, std::move(text)); }

std::string text(const flatbuffers::String* string) { return string ? string->str() : std::string(); }
template <typename T>
uint64_t size(const T* vector) {
  return vector ? vector->size() : 0;
}
void check_index(int64_t index, uint64_t count, const char* what) {
  if (index < 0 || static_cast<uint64_t>(index) >= count)
    malformed(fmt::format("{} {} is outside 0..{}", what, index, static_cast<int64_t>(count) - 1));
}

class TfliteReader {
 public:
  TfliteReader(std::shared_ptr<Source> source, const Map& map)
      : source_(std::move(source)), map_(map), root_(*tflite::GetModel(map.data())) {}
  tfl::Model read();

 private:
  struct Bytes {
    uint64_t offset = 0, bytes = 0;
    bool there = false;
  };
  Bytes payload(uint32_t buffer);
  tfl::Tensor tensor(const tflite::Tensor& from);
  void read_data(const tflite::Tensor& from, tfl::Tensor& tensor);
  tfl::Operator operation(const tflite::Operator& from, uint64_t tensors);
  void check_subgraphs(const tfl::Operator& op);
  tfl::Subgraph subgraph(const tflite::SubGraph& from);
  tfl::Signature signature(const tflite::SignatureDef& from);
  void metadata(const tflite::Metadata& from);
  static std::vector<int32_t> indices(const flatbuffers::Vector<int32_t>* from, uint64_t count, bool optional);

  std::shared_ptr<Source> source_;
  const Map& map_;
  const tflite::Model& root_;
  tfl::Model model_;
};

// Where the bytes of a buffer stand: inside the flatbuffer, or behind it.
TfliteReader::Bytes TfliteReader::payload(uint32_t index) {
  check_index(index, size(root_.buffers()), "buffer");
  const tflite::Buffer& buffer = *root_.buffers()->Get(index);
  if (const auto* data = buffer.data()) return {static_cast<uint64_t>(data->Data() - map_.data()), data->size(), true};
  if (buffer.offset() <= 1) return {};
  model_.external_buffers = true;
  check_range(buffer.offset(), buffer.size(), source_->size(), source_->name());
  return {buffer.offset(), buffer.size(), true};
}

void TfliteReader::read_data(const tflite::Tensor& from, tfl::Tensor& out) {
  Bytes bytes = payload(from.buffer());
  bool empty = std::find(out.shape.begin(), out.shape.end(), 0) != out.shape.end();
  // A buffer without bytes is what computed tensors have; of a constant it says that it has no elements.
  if (!bytes.there || (bytes.bytes == 0 && !empty)) return;
  out.has_data = true;
  out.data_bytes = bytes.bytes;
  if (out.is_sparse || out.dtype == DType::kUndefined || out.dtype == DType::kString) return;
  uint64_t elements = element_count(out.shape);
  if (file_bytes(out.dtype, elements) != bytes.bytes)
    malformed(
        fmt::format("{} bytes of data for {} of shape {}", bytes.bytes, dtype_name(out.dtype), to_string(out.shape)));
  out.data = recipe::extent(source_, {{bytes.offset, bytes.bytes, elements}}, out.dtype, out.shape);
}

tfl::Tensor TfliteReader::tensor(const tflite::Tensor& from) {
  tfl::Tensor out;
  out.name = text(from.name());
  out.type = tflite::EnumNameTensorType(from.type());
  out.dtype = dtype_of(from.type());
  for (uint64_t i = 0; i < size(from.shape()); ++i) out.shape.push_back(from.shape()->Get(static_cast<uint32_t>(i)));
  for (uint64_t i = 0; i < size(from.shape_signature()); ++i)
    out.shape_signature.push_back(from.shape_signature()->Get(static_cast<uint32_t>(i)));
  out.is_variable = from.is_variable();
  out.is_sparse = from.sparsity() != nullptr;
  if (!out.shape_signature.empty() && out.shape_signature.size() != out.shape.size())
    malformed(fmt::format("tensor '{}': shape_signature is of another rank than shape", out.name));
  if (const auto* q = from.quantization();
      q && (size(q->scale()) > 0 || q->details_type() != tflite::QuantizationDetails::NONE)) {
    out.quantization = std::make_unique<tfl::Quantization>();
    auto copy = [](const auto* vector, auto& to) {
      if (vector) to.assign(vector->begin(), vector->end());
    };
    copy(q->min(), out.quantization->min);
    copy(q->max(), out.quantization->max);
    copy(q->scale(), out.quantization->scale);
    copy(q->zero_point(), out.quantization->zero_point);
    out.quantization->axis = q->quantized_dimension();
    out.quantization->other_form = q->details_type() != tflite::QuantizationDetails::NONE;
  }
  try {
    read_data(from, out);
  } catch (Error& error) {
    error.add_place({.slot = fmt::format("tensor '{}'", out.name)});
    throw;
  }
  return out;
}

std::vector<int32_t> TfliteReader::indices(const flatbuffers::Vector<int32_t>* from, uint64_t count, bool optional) {
  std::vector<int32_t> out;
  for (uint64_t i = 0; i < size(from); ++i) {
    out.push_back(from->Get(static_cast<uint32_t>(i)));
    if (!(optional && out.back() == -1)) check_index(out.back(), count, "tensor");
  }
  return out;
}

// Options that name subgraphs do so in fields of these names.
void TfliteReader::check_subgraphs(const tfl::Operator& op) {
  auto check = [&](int64_t index) { check_index(index, size(root_.subgraphs()), "subgraph"); };
  for (const tfl::Option& option : op.options) {
    if (option.name.find("subgraph") == std::string::npos && option.name != "called_computations") continue;
    if (const auto* one = std::get_if<int64_t>(&option.value)) check(*one);
    if (const auto* many = std::get_if<std::vector<int64_t>>(&option.value))
      std::for_each(many->begin(), many->end(), check);
  }
}

tfl::Operator TfliteReader::operation(const tflite::Operator& from, uint64_t tensors) {
  check_index(from.opcode_index(), size(root_.operator_codes()), "operator code");
  const tflite::OperatorCode& code = *root_.operator_codes()->Get(from.opcode_index());
  tfl::Operator out;
  out.code = std::max(static_cast<int32_t>(code.builtin_code()), static_cast<int32_t>(code.deprecated_builtin_code()));
  out.version = code.version();
  if (out.code == static_cast<int32_t>(tflite::BuiltinOperator::CUSTOM)) {
    out.name = text(code.custom_code());
  } else {
    const char* name = tflite::EnumNameBuiltinOperator(static_cast<tflite::BuiltinOperator>(out.code));
    out.name = *name ? name : fmt::format("BUILTIN_{}", out.code);
  }
  out.inputs = indices(from.inputs(), tensors, true);
  out.outputs = indices(from.outputs(), tensors, false);
  out.intermediates = indices(from.intermediates(), tensors, true);
  out.custom_bytes = size(from.custom_options());
  if (from.large_custom_options_offset() > 1) {
    check_range(from.large_custom_options_offset(), from.large_custom_options_size(), source_->size(), source_->name());
    out.custom_bytes = from.large_custom_options_size();
  }
  read_options(from, out);
  check_subgraphs(out);
  return out;
}

tfl::Subgraph TfliteReader::subgraph(const tflite::SubGraph& from) {
  tfl::Subgraph out;
  out.name = text(from.name());
  uint64_t tensors = size(from.tensors());
  for (uint64_t i = 0; i < tensors; ++i) out.tensors.push_back(tensor(*from.tensors()->Get(static_cast<uint32_t>(i))));
  out.inputs = indices(from.inputs(), tensors, false);
  out.outputs = indices(from.outputs(), tensors, false);
  for (uint64_t i = 0; i < size(from.operators()); ++i) {
    try {
      out.operators.push_back(operation(*from.operators()->Get(static_cast<uint32_t>(i)), tensors));
    } catch (Error& error) {
      error.add_place({.slot = fmt::format("operator {} of subgraph '{}'", i, out.name)});
      throw;
    }
  }
  return out;
}

tfl::Signature TfliteReader::signature(const tflite::SignatureDef& from) {
  check_index(from.subgraph_index(), model_.subgraphs.size(), "subgraph of a signature");
  tfl::Signature out;
  out.key = text(from.signature_key());
  out.subgraph = from.subgraph_index();
  auto read = [&](const auto* maps, auto& to) {
    for (uint64_t i = 0; i < size(maps); ++i) {
      const tflite::TensorMap& map = *maps->Get(static_cast<uint32_t>(i));
      check_index(map.tensor_index(), model_.subgraphs[out.subgraph].tensors.size(), "tensor of a signature");
      to.emplace_back(text(map.name()), map.tensor_index());
    }
  };
  read(from.inputs(), out.inputs);
  read(from.outputs(), out.outputs);
  return out;
}

void TfliteReader::metadata(const tflite::Metadata& from) {
  Bytes bytes = payload(from.buffer());
  std::string value = fmt::format("{} bytes", bytes.bytes);
  if (bytes.bytes <= kShortMetadata) {
    value.resize(bytes.bytes);
    source_->read_at(bytes.offset, std::as_writable_bytes(std::span(value)));
    value.resize(std::min(value.size(), value.find('\0')));
  }
  model_.metadata[text(from.name())] = value;
}

tfl::Model TfliteReader::read() {
  model_.path = source_->name();
  model_.file_bytes = source_->size();
  model_.version = root_.version();
  model_.description = text(root_.description());
  if (size(root_.subgraphs()) == 0) malformed("the model has no subgraph");
  for (uint64_t i = 0; i < size(root_.subgraphs()); ++i)
    model_.subgraphs.push_back(subgraph(*root_.subgraphs()->Get(static_cast<uint32_t>(i))));
  for (uint64_t i = 0; i < size(root_.signature_defs()); ++i)
    model_.signatures.push_back(signature(*root_.signature_defs()->Get(static_cast<uint32_t>(i))));
  for (uint64_t i = 0; i < size(root_.metadata()); ++i) metadata(*root_.metadata()->Get(static_cast<uint32_t>(i)));
  source_->check_unchanged();
  return std::move(model_);
}

}  // namespace

tfl::Model read_tflite(const std::filesystem::path& path) {
  std::shared_ptr<Source> source = open_file(path);
  try {
    Map map(*source);
    flatbuffers::Verifier verifier(map.data(), map.bytes(), kMaxDepth, kMaxTables);
    if (map.bytes() < 8 || !tflite::ModelBufferHasIdentifier(map.data())) malformed("it is not a TFLite file");
    if (!tflite::VerifyModelBuffer(verifier)) malformed("the flatbuffer is damaged");
    return TfliteReader(source, map).read();
  } catch (Error& error) {
    error.add_place({.file = path.string()});
    throw;
  }
}

}  // namespace lowtide::stream
