// SPDX-License-Identifier: Apache-2.0
// A protobuf message in the making: its fields as text, and the data of large fields as recipes that run later.
//
//     text  | tag 8 | tag length(data 0) || tag length(message) ...      data 0 stands at ||
//
// A message within a message is written when it is complete, because its length stands in front of it. So nothing is
// patched afterwards, and the size of all is known before a recipe runs. What is resident is the text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stream/recipe/recipe.h"

namespace lowtide::emit {

class OnnxMessage {
 public:
  // Bytes that are not in the text.
  struct Data {
    uint64_t text_before = 0;  // bytes of the text in front of it
    stream::RecipeRef recipe;  // not empty
    std::string tensor;        // for messages
  };

  void number(int field, uint64_t value);  // int32, int64, enums: as uint64_t
  void numbers(int field, const std::vector<int64_t>& values);
  void float32(int field, float value);
  void text(int field, std::string_view value);
  void message(int field, OnnxMessage&& value);
  // A field of bytes: what the recipe makes, in the form of a file.
  void data(int field, stream::RecipeRef recipe, std::string tensor);
  // Fields as they stand elsewhere.
  void append(std::string_view fields) { text_ += fields; }
  void append(stream::RecipeRef fields, std::string tensor);

  uint64_t bytes() const;  // throws Error(kMalformed) when that overflows
  const std::string& text() const { return text_; }
  const std::vector<Data>& data() const { return data_; }

 private:
  void tag(int field, int wire_type);
  void varint(uint64_t value);

  std::string text_;
  std::vector<Data> data_;
  uint64_t data_bytes_ = 0;
};

}  // namespace lowtide::emit
