// The trap in the format: a nested message stands behind its length, so all sizes must be known before the first
// byte is written, and protobuf's own size functions count in int. Here messages with weights are sized in 64 bits by
// the same code that writes them, and a message is written in parts, whose concatenation protobuf reads as one:
//
//   model  = ir_version ... | graph | opset_import
//   graph  = name, nodes    | initializer, initializer, ... | inputs, outputs
//   tensor = dims, type, name, place of external data | raw_data
#include "bench/onnx_stream.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream.h>

#include <algorithm>
#include <array>
#include <bit>
#include <exception>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/uniform.h"
#include "stream/error.h"
#include "stream/file.h"

namespace lowtide::bench {
namespace {

static_assert(std::endian::native == std::endian::little,
              "raw_data is little-endian and floats are written as they are");

using google::protobuf::MessageLite;
using google::protobuf::io::CodedOutputStream;

constexpr uint64_t kInlineLimit = std::numeric_limits<int32_t>::max();  // of a protobuf message
constexpr uint64_t kAlignment = 64;
constexpr uint64_t kSmallTensor = 1024;  // stays inline, as onnx.save_model's size_threshold has it
constexpr size_t kStreamBuffer = 1 << 20;
constexpr uint64_t kSparseFloats = 1024;  // values of a weight in a sparse file: a page, so that weights differ
constexpr size_t kChunk = 1 << 16;        // floats; large enough to amortise a call, small enough for the L2 cache

/// An OutFile as protobuf wants to see it. Protobuf's frames must not be unwound from within, so an exception waits in
/// here until finish().
class FileStream : public google::protobuf::io::ZeroCopyOutputStream {
 public:
  /// Of a sparse file only what is written takes space.
  FileStream(const std::filesystem::path& path, uint64_t size, bool sparse)
      : file_(path, size, sparse ? 0 : size), buffer_(kStreamBuffer) {
    if (!sparse) file_.reserve({0, size});
  }

  bool Next(void** data, int* size) override {
    if (!flush()) return false;
    *data = buffer_.data();
    *size = static_cast<int>(buffer_.size());
    filled_ = buffer_.size();
    return true;
  }
  void BackUp(int count) override { filled_ -= static_cast<size_t>(count); }
  int64_t ByteCount() const override { return static_cast<int64_t>(written_ + filled_); }
  /// Leaves a hole. A CodedOutputStream in front must have been trimmed.
  void skip(uint64_t bytes) {
    if (flush()) written_ += bytes;
  }

  void finish() {
    flush();
    check();
    if (written_ != file_.size()) {
      throw stream::Error(stream::Code::kInternal, "a generated file is not as long as planned");
    }
  }
  void check() const {
    if (error_) std::rethrow_exception(error_);
  }
  void commit() { file_.commit(); }

 private:
  bool flush() {
    if (error_) return false;
    try {
      file_.write_at(written_, std::as_bytes(std::span(buffer_.data(), filled_)));
    } catch (...) {
      error_ = std::current_exception();
      return false;
    }
    written_ += std::exchange(filled_, 0);
    return true;
  }

  stream::OutFile file_;
  std::vector<char> buffer_;
  size_t filled_ = 0;
  uint64_t written_ = 0;
  std::exception_ptr error_;
};

constexpr uint32_t length_delimited(int field) { return static_cast<uint32_t>(field) << 3 | 2; }

uint64_t field_size(int field, uint64_t length) {
  return CodedOutputStream::VarintSize32(length_delimited(field)) + CodedOutputStream::VarintSize64(length) + length;
}

void write_field(int field, uint64_t length, CodedOutputStream& out) {
  out.WriteVarint32(length_delimited(field));
  out.WriteVarint64(length);
}

int64_t ir_version(int opset) {
  // The IR version that was current when the opset came out: a reader of that opset must not meet a newer one.
  if (opset <= 14) return onnx::IR_VERSION_2020_5_8;
  if (opset <= 18) return onnx::IR_VERSION_2021_7_30;
  if (opset <= 20) return onnx::IR_VERSION_2023_5_5;
  if (opset <= 22) return onnx::IR_VERSION_2024_3_25;
  return onnx::IR_VERSION_2025_05_12;
}

class Writer {
 public:
  Writer(const Graph& graph, const std::filesystem::path& out, const OnnxOptions& options)
      : graph_(graph), options_(options), out_(out), data_path_(out), weight_bytes_(graph.weight_bytes()) {
    data_path_ += ".data";
    head_.set_ir_version(ir_version(options.opset));
    head_.set_producer_name("lowtide make-model");
    tail_.add_opset_import()->set_version(options.opset);
    places_.resize(graph.initializers.size());
    if (options.external || options.sparse || model_size() > kInlineLimit) place_externally();
  }

  MadeModel write() {
    const MadeModel made = {weight_bytes_, model_size(), data_size_};
    FileStream model(out_, made.model_bytes, false);
    std::optional<FileStream> data;
    if (data_size_ > 0) data.emplace(data_path_, data_size_, options_.sparse);
    write_model(model, data ? &*data : nullptr);
    if (data) data->finish();
    model.finish();
    // The weights first: whoever finds the new model finds its data too.
    if (data) data->commit();
    model.commit();
    return made;
  }

 private:
  void place_externally() {
    for (size_t i = 0; i < places_.size(); ++i) {
      const uint64_t bytes = graph_.initializers[i].bytes();
      if (bytes < kSmallTensor) continue;
      places_[i] = (data_size_ + kAlignment - 1) / kAlignment * kAlignment;
      data_size_ = *places_[i] + bytes;
    }
  }

  /// Everything of an initializer but its raw_data.
  onnx::TensorProto tensor_head(size_t i) const {
    const Initializer& x = graph_.initializers[i];
    onnx::TensorProto head;
    head.set_name(x.name);
    head.mutable_dims()->Assign(x.dims.begin(), x.dims.end());
    head.set_data_type(std::holds_alternative<UniformValues>(x.values) ? onnx::TensorProto::FLOAT
                                                                       : onnx::TensorProto::INT64);
    if (!places_[i]) return head;
    head.set_data_location(onnx::TensorProto::EXTERNAL);
    const auto add = [&head](const char* key, const std::string& value) {
      onnx::StringStringEntryProto& entry = *head.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    };
    add("location", data_path_.filename().string());
    add("offset", std::to_string(*places_[i]));
    add("length", std::to_string(x.bytes()));
    return head;
  }

  uint64_t tensor_size(size_t i) const {
    const uint64_t head = tensor_head(i).ByteSizeLong();
    return places_[i] ? head
                      : head + field_size(onnx::TensorProto::kRawDataFieldNumber, graph_.initializers[i].bytes());
  }

  uint64_t graph_size() const {
    uint64_t size = graph_.head.ByteSizeLong() + graph_.tail.ByteSizeLong();
    for (size_t i = 0; i < places_.size(); ++i) {
      size += field_size(onnx::GraphProto::kInitializerFieldNumber, tensor_size(i));
    }
    return size;
  }

  uint64_t model_size() const {
    return head_.ByteSizeLong() + field_size(onnx::ModelProto::kGraphFieldNumber, graph_size()) + tail_.ByteSizeLong();
  }

  void write_model(FileStream& model, FileStream* data) {
    CodedOutputStream out(&model);
    std::optional<CodedOutputStream> data_out;
    if (data != nullptr) data_out.emplace(data);
    write_part(head_, out);
    write_field(onnx::ModelProto::kGraphFieldNumber, graph_size(), out);
    write_part(graph_.head, out);
    for (size_t i = 0; i < places_.size(); ++i) {
      write_field(onnx::GraphProto::kInitializerFieldNumber, tensor_size(i), out);
      write_part(tensor_head(i), out);
      const uint64_t bytes = graph_.initializers[i].bytes();
      if (places_[i]) {
        pad_data(*places_[i], bytes, *data_out);
      } else {
        write_field(onnx::TensorProto::kRawDataFieldNumber, bytes, out);
      }
      const bool sparse = places_[i] && options_.sparse;
      write_values(graph_.initializers[i], places_[i] ? *data_out : out, sparse ? kSparseFloats : UINT64_MAX);
      if (sparse) skip_values(bytes, *data_out, *data);
      model.check();
      if (data != nullptr) data->check();
    }
    write_part(graph_.tail, out);
    write_part(tail_, out);
  }

  static void write_part(const MessageLite& part, CodedOutputStream& out) { part.SerializePartialToCodedStream(&out); }

  void pad_data(uint64_t offset, uint64_t bytes, CodedOutputStream& out) {
    static constexpr std::array<char, kAlignment> kZeros = {};
    out.WriteRaw(kZeros.data(), static_cast<int>(offset - data_end_));
    data_end_ = offset + bytes;
  }

  /// The first `most` values.
  void write_values(const Initializer& x, CodedOutputStream& out, uint64_t most) {
    if (const auto* ints = std::get_if<IntValues>(&x.values)) {
      for (const int64_t value : *ints) out.WriteLittleEndian64(static_cast<uint64_t>(value));
      return;
    }
    const auto& range = std::get<UniformValues>(x.values);
    const Uniform uniform(options_.seed, x.name, range.low, range.high);
    const uint64_t count = std::min(x.bytes() / sizeof(float), most);
    for (uint64_t first = 0; first < count; first += kChunk) {
      const std::span chunk(chunk_.data(), std::min<uint64_t>(kChunk, count - first));
      uniform.fill(first, chunk);
      out.WriteRaw(chunk.data(), static_cast<int>(chunk.size_bytes()));
      if (out.HadError()) return;  // the stream's check() throws what it was
      advance(chunk.size_bytes());
    }
  }

  /// The hole behind the first values of a weight of `bytes`.
  void skip_values(uint64_t bytes, CodedOutputStream& out, FileStream& data) {
    const uint64_t hole = bytes - std::min(bytes, kSparseFloats * sizeof(float));
    out.Trim();
    data.skip(hole);
    advance(hole);
  }

  void advance(uint64_t bytes) {
    weights_done_ += bytes;
    if (options_.progress) options_.progress(weights_done_, weight_bytes_);
  }

  const Graph& graph_;
  const OnnxOptions& options_;
  std::filesystem::path out_;
  std::filesystem::path data_path_;
  onnx::ModelProto head_;
  onnx::ModelProto tail_;
  std::vector<std::optional<uint64_t>> places_;  // offset in the external data of each initializer
  uint64_t data_size_ = 0;
  uint64_t data_end_ = 0;  // of what has been written
  uint64_t weight_bytes_;
  uint64_t weights_done_ = 0;  // bytes
  std::vector<float> chunk_ = std::vector<float>(kChunk);
};

}  // namespace

MadeModel write_onnx(const Graph& graph, const std::filesystem::path& out, const OnnxOptions& options) {
  return Writer(graph, out, options).write();
}

}  // namespace lowtide::bench
