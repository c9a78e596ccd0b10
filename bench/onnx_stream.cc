// SPDX-License-Identifier: Apache-2.0
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
#include "stream/file/out_file.h"

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
      : graph_(graph), options_(options), out_(out), weight_bytes_(graph.weight_bytes()) {
    head_.set_ir_version(ir_version(options.opset));
    head_.set_producer_name("lowtide make-model");
    tail_.add_opset_import()->set_version(options.opset);
    places_.resize(graph.initializers.size());
    if (options.external || options.sparse || model_size() > kInlineLimit) place_externally();
  }

  MadeModel write() {
    MadeModel made = {weight_bytes_, model_size(), 0};
    for (const uint64_t bytes : data_sizes_) made.data_bytes += bytes;
    FileStream model(out_, made.model_bytes, false);
    try {
      write_model(model);
      model.finish();
      // The weights came first: whoever finds the new model finds its data too.
      model.commit();
    } catch (...) {
      for (uint64_t file = 0; file < data_committed_; ++file) remove(data_path(file));
      throw;
    }
    return made;
  }

 private:
  struct Place {
    uint64_t file, offset;
  };

  /// One file after the other, each with as many initializers as the others.
  void place_externally() {
    std::vector<size_t> large;
    for (size_t i = 0; i < places_.size(); ++i) {
      if (graph_.initializers[i].bytes() >= kSmallTensor) large.push_back(i);
    }
    if (large.empty()) return;
    data_sizes_.resize(std::min<uint64_t>(options_.files, large.size()));
    for (size_t n = 0; n < large.size(); ++n) {
      const uint64_t file = n * data_sizes_.size() / large.size();
      const uint64_t offset = (data_sizes_[file] + kAlignment - 1) / kAlignment * kAlignment;
      places_[large[n]] = {file, offset};
      data_sizes_[file] = offset + graph_.initializers[large[n]].bytes();
    }
  }

  std::filesystem::path data_path(uint64_t file) const {
    std::filesystem::path path = out_;
    path += ".data";
    if (data_sizes_.size() > 1) path += "." + std::to_string(file);
    return path;
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
    add("location", data_path(places_[i]->file).filename().string());
    add("offset", std::to_string(places_[i]->offset));
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

  void write_model(FileStream& model) {
    CodedOutputStream out(&model);
    write_part(head_, out);
    write_field(onnx::ModelProto::kGraphFieldNumber, graph_size(), out);
    write_part(graph_.head, out);
    for (size_t i = 0; i < places_.size(); ++i) {
      const Initializer& x = graph_.initializers[i];
      write_field(onnx::GraphProto::kInitializerFieldNumber, tensor_size(i), out);
      write_part(tensor_head(i), out);
      if (places_[i]) {
        write_data(x, *places_[i]);
      } else {
        write_field(onnx::TensorProto::kRawDataFieldNumber, x.bytes(), out);
        write_values(x, out, UINT64_MAX);
      }
      model.check();
    }
    close_data();
    write_part(graph_.tail, out);
    write_part(tail_, out);
  }

  void write_data(const Initializer& x, const Place& place) {
    if (!data_ || data_committed_ != place.file) open_data(place.file);
    pad_data(place.offset, x.bytes(), *data_out_);
    write_values(x, *data_out_, options_.sparse ? kSparseFloats : UINT64_MAX);
    if (options_.sparse) skip_values(x.bytes(), *data_out_, *data_);
    data_->check();
  }

  void open_data(uint64_t file) {
    close_data();
    data_end_ = 0;
    data_.emplace(data_path(file), data_sizes_[file], options_.sparse);
    data_out_.emplace(&*data_);
  }

  void close_data() {
    if (!data_) return;
    data_out_.reset();
    data_->finish();
    data_->commit();
    data_.reset();
    ++data_committed_;
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
  onnx::ModelProto head_;
  onnx::ModelProto tail_;
  std::vector<std::optional<Place>> places_;  // of each initializer in the external data
  std::vector<uint64_t> data_sizes_;          // of the files
  std::optional<FileStream> data_;            // the file under work, whose number is data_committed_
  std::optional<CodedOutputStream> data_out_;
  uint64_t data_committed_ = 0;
  uint64_t data_end_ = 0;  // of what has been written to data_
  uint64_t weight_bytes_;
  uint64_t weights_done_ = 0;  // bytes
  std::vector<float> chunk_ = std::vector<float>(kChunk);
};

}  // namespace

MadeModel write_onnx(const Graph& graph, const std::filesystem::path& out, const OnnxOptions& options) {
  return Writer(graph, out, options).write();
}

}  // namespace lowtide::bench
