// SPDX-License-Identifier: Apache-2.0
// A walk over protobuf's wire format without the generated classes, so that a field of any size can be noted by its
// place and skipped.
//
//     Message graph(wire, body);                   a message is a range of the file
//     while (graph.next())                         fields come in any order; what is not read is skipped
//       switch (graph.field()) {
//         case GraphProto::kNameFieldNumber: name = graph.text(); break;
//         case GraphProto::kNodeFieldNumber: node(graph.body()); break;
//       }
//
// The trap: CodedInputStream counts in int, and files are larger. It is opened anew, at a 64-bit position, whenever a
// jump is long or its count has grown; the ends of messages are kept here, in 64 bits.
//
// What is resident is one small window, mapped where the source is mapped (stream/file/window.h), else read. A mapped
// page that becomes unreadable reads as zeros, which may look like a malformed message: so fail() looks for that first.
#pragma once

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stream/file/budget.h"
#include "stream/file/file.h"
#include "stream/file/window.h"

namespace lowtide::stream {

class Wire {
 public:
  // Texts are held in memory, so their length is limited: names, attribute strings, metadata.
  static constexpr uint64_t kMaxText = 64 * 1024 * 1024;
  // Messages within messages, as protobuf's own parsers limit them.
  static constexpr int kMaxDepth = 100;

  Wire(const Source& source, Budget& budget);
  Range all() const { return {0, source_.size()}; }
  [[noreturn]] void fail(uint64_t offset, std::string text) const;
  // Throws Error(kIo) when the file could not be read where the walk is. To be called when it ends, in whatever way.
  void check() const { input_.check(); }

  // Whether names that were read had zero bytes, and so differ from those in the file.
  bool has_changed_names() const { return has_zero_byte_; }

  // Number of varints in a packed field. Throws when the last one is cut or one is longer than ten bytes.
  uint64_t count_varints(Range packed);

 private:
  friend class Message;

  // Gives CodedInputStream small parts of the file; after a jump a part is small, and then they grow.
  class Input final : public google::protobuf::io::ZeroCopyInputStream {
   public:
    Input(const Source& source, Budget& budget) : source_(source), budget_(budget) {}
    void jump(uint64_t position);
    void check() const { window_.check(); }
    bool Next(const void** data, int* size) override;
    void BackUp(int count) override { next_ -= static_cast<uint64_t>(count); }
    bool Skip(int count) override;
    int64_t ByteCount() const override { return static_cast<int64_t>(next_ - origin_); }

   private:
    void load(uint64_t left);

    const Source& source_;
    Budget& budget_;
    Budget::Lease buffer_;  // where the source is not mapped
    Window window_;
    const std::byte* data_ = nullptr;  // of one of both
    uint64_t origin_ = 0;              // where the counting starts
    uint64_t next_ = 0;                // first byte not handed out
    uint64_t begin_ = 0, filled_ = 0;  // of the file, what is at data_
    uint64_t load_ = 0;                // size of the last load
  };

  uint64_t position() const { return base_ + static_cast<uint64_t>(coded_->CurrentPosition()); }
  void seek(uint64_t position);
  void open_at(uint64_t position);
  uint64_t varint(uint64_t end);
  void read(void* out, uint64_t bytes, uint64_t end);

  const Source& source_;
  Input input_;
  std::optional<google::protobuf::io::CodedInputStream> coded_;
  uint64_t base_ = 0;  // where coded_ was opened
  int depth_ = 0;
  bool has_zero_byte_ = false, has_zero_text_ = false;  // of names
};

// The fields of one message, one after the other. Every reading function throws Error(kMalformed) when the field has
// another wire type than the one asked for, or is cut.
class Message {
 public:
  Message(Wire& wire, Range body);
  ~Message() { --wire_.depth_; }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  bool next();
  int field() const { return field_; }
  uint64_t offset() const { return offset_; }             // of the field's tag
  uint64_t value_offset() const { return value_.begin; }  // behind the tag, and the length if there is one
  uint64_t end_offset() const { return value_.end; }
  bool has_length() const { return type_ == kLength; }
  [[noreturn]] void fail(std::string text) const { wire_.fail(offset_, std::move(text)); }

  Range body() const;
  uint64_t varint() const;
  int64_t int64() const { return static_cast<int64_t>(varint()); }
  float float32() const;
  void check_fixed(int bytes) const;
  std::string text();
  // A text with zero bytes written as \x00: in TFLite names are C strings, which end there. All other names stay as
  // they are; throws Error(kMalformed) when the file has names of both kinds that this could make equal.
  std::string name();
  // Repeated numbers: one, or a packed run of them.
  void append(std::vector<int64_t>& out);
  void append(std::vector<float>& out);

 private:
  enum Type : uint8_t { kVarint = 0, kFixed64 = 1, kLength = 2, kStartGroup = 3, kEndGroup = 4, kFixed32 = 5 };
  void expect(Type type, const char* wanted) const;

  Wire& wire_;
  Range body_;
  uint64_t next_;  // where the next field's tag is
  uint64_t offset_ = 0;
  int field_ = 0;
  Type type_ = kVarint;
  Range value_;
  uint64_t number_ = 0;  // the value of a varint or fixed field
};

}  // namespace lowtide::stream
