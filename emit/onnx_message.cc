// SPDX-License-Identifier: Apache-2.0
#include "emit/onnx_message.h"

#include <cstring>
#include <utility>

namespace lowtide::emit {
namespace {

constexpr int kVarintType = 0, kLengthType = 2, kFixed32Type = 5;

}  // namespace

void OnnxMessage::varint(uint64_t value) {
  constexpr uint64_t kMore = 0x80;
  for (; value >= kMore; value >>= 7) text_ += static_cast<char>(value | kMore);
  text_ += static_cast<char>(value);
}

void OnnxMessage::tag(int field, int wire_type) {
  varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire_type));
}

void OnnxMessage::number(int field, uint64_t value) {
  tag(field, kVarintType);
  varint(value);
}

void OnnxMessage::numbers(int field, const std::vector<int64_t>& values) {
  for (int64_t value : values) number(field, static_cast<uint64_t>(value));
}

void OnnxMessage::float32(int field, float value) {
  tag(field, kFixed32Type);
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  text_.append(bytes, sizeof bytes);
}

void OnnxMessage::text(int field, std::string_view value) {
  tag(field, kLengthType);
  varint(value.size());
  text_ += value;
}

void OnnxMessage::message(int field, OnnxMessage&& value) {
  tag(field, kLengthType);
  varint(value.bytes());
  for (Data& data : value.data_) {
    data.text_before += text_.size();
    data_.push_back(std::move(data));
  }
  text_ += value.text_;
  data_bytes_ = stream::checked_add(data_bytes_, value.data_bytes_);
  value = {};
}

void OnnxMessage::data(int field, stream::RecipeRef recipe, std::string tensor) {
  tag(field, kLengthType);
  varint(recipe->bytes());
  append(std::move(recipe), std::move(tensor));
}

void OnnxMessage::append(stream::RecipeRef fields, std::string tensor) {
  if (fields->bytes() == 0) return;
  data_bytes_ = stream::checked_add(data_bytes_, fields->bytes());
  data_.push_back({text_.size(), std::move(fields), std::move(tensor)});
}

uint64_t OnnxMessage::bytes() const { return stream::checked_add(text_.size(), data_bytes_); }

}  // namespace lowtide::emit
