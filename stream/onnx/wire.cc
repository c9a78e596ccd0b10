// SPDX-License-Identifier: Apache-2.0
#include "stream/onnx/wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <climits>

#include "stream/error.h"

namespace lowtide::stream {
namespace {

// To map takes longer than to read, so windows are larger and grow faster than loads of the buffer.
constexpr uint64_t kFirstLoad = 4 * 1024, kMostLoaded = 64 * 1024;
constexpr uint64_t kFirstWindow = 16 * 1024, kMostMapped = 256 * 1024;
// CodedInputStream is opened anew when it has counted this far: no single text reaches from here to INT_MAX.
constexpr int kReopenAt = 1 << 30;
constexpr int kMaxVarintBytes = 10;
static_assert(Wire::kMaxText < INT_MAX - kReopenAt);

}  // namespace

void Wire::Input::jump(uint64_t position) {
  origin_ = position;
  next_ = position;
}

// `left`: bytes from next_ to the end of the file.
void Wire::Input::load(uint64_t left) {
  const bool goes_on = filled_ != 0 && next_ == begin_ + filled_;
  filled_ = 0;  // should anything throw
  window_.check();
  window_ = {};
  const uint64_t mapped = std::min(goes_on ? std::clamp(load_ * 2, kFirstWindow, kMostMapped) : kFirstWindow, left);
  window_ = source_.window(next_, mapped, budget_);
  uint64_t bytes = mapped;
  if (window_) {
    data_ = window_.data();
  } else {
    bytes = std::min(goes_on ? std::clamp(load_ * 2, kFirstLoad, kMostLoaded) : kFirstLoad, left);
    if (buffer_.size() == 0) buffer_ = budget_.take(kMostLoaded, "the window on a model file");
    source_.read_at(next_, buffer_.span().first(bytes));
    data_ = buffer_.data();
  }
  load_ = bytes;
  begin_ = next_;
  filled_ = bytes;
}

bool Wire::Input::Next(const void** data, int* size) {
  if (next_ < begin_ || next_ >= begin_ + filled_) {
    const uint64_t left = source_.size() - std::min(next_, source_.size());
    if (left == 0) return false;
    load(left);
  }
  *data = data_ + (next_ - begin_);
  *size = static_cast<int>(begin_ + filled_ - next_);
  next_ = begin_ + filled_;
  return true;
}

bool Wire::Input::Skip(int count) {
  next_ += static_cast<uint64_t>(count);
  if (next_ <= source_.size()) return true;
  next_ = source_.size();
  return false;
}

Wire::Wire(const Source& source, Budget& budget) : source_(source), input_(source, budget) { open_at(0); }

void Wire::fail(uint64_t offset, std::string text) const {
  check();
  throw Error(Code::kMalformed, std::move(text), {.file = source_.name(), .offset = offset});
}

void Wire::open_at(uint64_t position) {
  coded_.reset();  // gives what it had not used back to the window: before the jump
  input_.jump(position);
  base_ = position;
  coded_.emplace(&input_);
}

void Wire::seek(uint64_t position) {
  const uint64_t here = this->position();
  if (position < here || position - here > INT_MAX / 4 || coded_->CurrentPosition() > kReopenAt) {
    open_at(position);
  } else if (position > here && !coded_->Skip(static_cast<int>(position - here))) {
    fail(here, "the file ends within a message");
  }
}

uint64_t Wire::varint(uint64_t end) {
  const uint64_t begin = position();
  uint64_t value = 0;
  if (!coded_->ReadVarint64(&value)) {
    fail(begin,
         source_.size() - begin < kMaxVarintBytes ? "the file ends within a number" : "a number of more than 10 bytes");
  }
  if (position() > end) fail(begin, "a number reaches beyond the end of its message");
  return value;
}

void Wire::read(void* out, uint64_t bytes, uint64_t end) {
  const uint64_t begin = position();
  if (bytes > end - std::min(begin, end)) fail(begin, "a value reaches beyond the end of its message");
  if (!coded_->ReadRaw(out, static_cast<int>(bytes))) fail(begin, "the file ends within a value");
}

uint64_t Wire::count_varints(Range packed) {
  uint64_t count = 0;
  int length = 0;
  for (uint64_t at = packed.begin; at < packed.end;) {
    seek(at);
    const void* data = nullptr;
    int size = 0;
    if (!coded_->GetDirectBufferPointer(&data, &size)) fail(at, "the file ends within a packed field");
    const uint64_t bytes = std::min<uint64_t>(static_cast<uint64_t>(size), packed.end - at);
    const auto* byte = static_cast<const uint8_t*>(data);
    for (uint64_t i = 0; i < bytes; ++i) {
      ++length;
      if (byte[i] < 0x80) {
        ++count;
        length = 0;
      } else if (length >= kMaxVarintBytes) {
        fail(at + i, "a number of more than 10 bytes");
      }
    }
    at += bytes;
  }
  if (length != 0) fail(packed.end, "a packed field ends within a number");
  return count;
}

Message::Message(Wire& wire, Range body) : wire_(wire), body_(body), next_(body.begin), offset_(body.begin) {
  if (wire_.depth_ >= Wire::kMaxDepth)
    wire_.fail(body.begin, fmt::format("messages nest deeper than {}", Wire::kMaxDepth));
  ++wire_.depth_;
}

bool Message::next() {
  if (next_ >= body_.end) return false;
  wire_.seek(next_);
  offset_ = next_;
  const uint64_t tag = wire_.varint(body_.end);
  if (tag > UINT32_MAX || tag >> 3 == 0) fail(fmt::format("not a protobuf message: tag {}", tag));
  field_ = static_cast<int>(tag >> 3);
  type_ = static_cast<Type>(tag & 7);
  value_.begin = wire_.position();
  switch (type_) {
    case kVarint:
      number_ = wire_.varint(body_.end);
      break;
    case kFixed64:
      number_ = 0;
      wire_.read(&number_, 8, body_.end);
      break;
    case kFixed32:
      number_ = 0;
      wire_.read(&number_, 4, body_.end);
      break;
    case kLength: {
      const uint64_t bytes = wire_.varint(body_.end);
      value_.begin = wire_.position();
      if (bytes > body_.end - value_.begin) {
        fail(fmt::format("field {} is {} bytes long, and its message has {} left (is the file cut?)", field_, bytes,
                         body_.end - value_.begin));
      }
      value_.end = value_.begin + bytes;
      next_ = value_.end;
      return true;
    }
    default:
      fail(fmt::format("not a protobuf message of ONNX: field {} has wire type {}", field_, tag & 7));
  }
  value_.end = next_ = wire_.position();
  return true;
}

void Message::expect(Type type, const char* wanted) const {
  if (type_ != type)
    fail(fmt::format("field {} has wire type {}, {} is wanted", field_, static_cast<int>(type_), wanted));
}

Range Message::body() const {
  expect(kLength, "bytes or a message");
  return value_;
}

uint64_t Message::varint() const {
  expect(kVarint, "a number");
  return number_;
}

float Message::float32() const {
  expect(kFixed32, "a float");
  return std::bit_cast<float>(static_cast<uint32_t>(number_));
}

void Message::check_fixed(int bytes) const {
  if (bytes == 4) {
    expect(kFixed32, "four bytes");
  } else {
    expect(kFixed64, "eight bytes");
  }
}

std::string Message::text() {
  const Range range = body();
  if (range.bytes() > Wire::kMaxText)
    fail(fmt::format("a text of {} bytes; at most {} are read", range.bytes(), Wire::kMaxText));
  std::string out(range.bytes(), '\0');
  wire_.seek(range.begin);
  wire_.read(out.data(), out.size(), range.end);
  return out;
}

std::string Message::name() {
  constexpr std::string_view kZero = "\\x00";
  std::string read = text();
  wire_.has_zero_text_ |= read.find(kZero) != std::string::npos;
  if (read.find('\0') != std::string::npos) {
    wire_.has_zero_byte_ = true;
    std::string out;
    for (const char letter : read) letter == '\0' ? out.append(kZero) : out.append(1, letter);
    read = std::move(out);
  }
  // Two names could become one.
  if (wire_.has_zero_byte_ && wire_.has_zero_text_)
    fail("some names contain zero bytes, and some the text \\x00, which stands for a zero byte: rename one of them");
  return read;
}

void Message::append(std::vector<int64_t>& out) {
  if (type_ == kVarint) {
    out.push_back(int64());
    return;
  }
  const Range range = body();
  for (wire_.seek(range.begin); wire_.position() < range.end; wire_.seek(wire_.position())) {
    out.push_back(static_cast<int64_t>(wire_.varint(range.end)));
  }
}

void Message::append(std::vector<float>& out) {
  if (type_ == kFixed32) {
    out.push_back(float32());
    return;
  }
  const Range range = body();
  if (range.bytes() % sizeof(float) != 0) fail("packed floats whose bytes are no multiple of four");
  for (wire_.seek(range.begin); wire_.position() < range.end; wire_.seek(wire_.position())) {
    float value = 0;
    wire_.read(&value, sizeof(value), range.end);
    out.push_back(value);
  }
}

}  // namespace lowtide::stream
