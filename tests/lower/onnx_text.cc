// SPDX-License-Identifier: Apache-2.0
#include "tests/lower/onnx_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <string>

namespace lowtide::golden {
namespace {

using ::onnx::AttributeProto;
using ::onnx::GraphProto;
using ::onnx::ModelProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;
using ::onnx::TypeProto;
using ::onnx::ValueInfoProto;

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// A type's name in lower case, as the text form has it; UNDEFINED when it is none.
TensorProto::DataType element_type(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
  TensorProto::DataType type = TensorProto::UNDEFINED;
  return TensorProto::DataType_Parse(name, &type) ? type : TensorProto::UNDEFINED;
}

int64_t element_count(const TensorProto& tensor) {
  int64_t count = 1;
  for (int64_t dim : tensor.dims()) count *= dim;
  return count;
}

template <typename T>
void append_bytes(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

// One element of a constant, from its digits, in the bytes of its type.
void append_number(std::string& bytes, TensorProto::DataType type, const std::string& digits) {
  const double number = std::strtod(digits.c_str(), nullptr);
  const auto whole = static_cast<int64_t>(std::strtoll(digits.c_str(), nullptr, 10));
  switch (type) {
    case TensorProto::FLOAT:
      return append_bytes(bytes, std::strtof(digits.c_str(), nullptr));
    case TensorProto::DOUBLE:
      return append_bytes(bytes, number);
    case TensorProto::BOOL:
    case TensorProto::INT8:
    case TensorProto::UINT8:
      return append_bytes(bytes, static_cast<int8_t>(whole));
    case TensorProto::INT16:
    case TensorProto::UINT16:
      return append_bytes(bytes, static_cast<int16_t>(whole));
    case TensorProto::INT32:
    case TensorProto::UINT32:
      return append_bytes(bytes, static_cast<int32_t>(whole));
    case TensorProto::INT64:
      return append_bytes(bytes, whole);
    case TensorProto::UINT64:
      return append_bytes(bytes, static_cast<uint64_t>(std::strtoull(digits.c_str(), nullptr, 10)));
    default:
      throw std::runtime_error("numbers of this type must be written as raw bytes");
  }
}

// Values in [-1, 1), any integers, packed 4-bit types: always the same for the same name.
std::string random_bytes(const TensorProto& tensor) {
  uint32_t seed = 2166136261u;
  for (char c : tensor.name()) seed = (seed ^ static_cast<unsigned char>(c)) * 16777619u;
  std::mt19937 random(seed);
  std::string bytes;
  int64_t count = element_count(tensor);
  const auto type = static_cast<TensorProto::DataType>(tensor.data_type());
  if (type == TensorProto::INT4 || type == TensorProto::UINT4) count = (count + 1) / 2;
  for (int64_t i = 0; i < count; ++i) {
    const auto drawn = static_cast<uint32_t>(random());
    switch (type) {
      case TensorProto::FLOAT:
        append_bytes(bytes,
                     static_cast<float>(static_cast<int32_t>(drawn >> 8) - (1 << 23)) / static_cast<float>(1 << 23));
        break;
      case TensorProto::DOUBLE:
        append_bytes(bytes, static_cast<double>(static_cast<int32_t>(drawn)) / 2147483648.0);
        break;
      case TensorProto::FLOAT16:  // of either sign, from 1/16 to 1
        append_bytes(bytes, static_cast<uint16_t>((drawn & 0x8000) | (0x2c00 + (drawn & 0x0fff))));
        break;
      case TensorProto::BOOL:
        append_bytes(bytes, static_cast<uint8_t>(drawn & 1));
        break;
      case TensorProto::INT8:
      case TensorProto::UINT8:
      case TensorProto::INT4:
      case TensorProto::UINT4:
        append_bytes(bytes, static_cast<uint8_t>(drawn >> 8));
        break;
      default:
        throw std::runtime_error("there are no random values of this type");
    }
  }
  return bytes;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  ModelProto model() {
    ModelProto model;
    model.set_ir_version(8);
    for (const char* part : {"<", "opset_import", ":", "["}) expect(part);
    do {
      auto* opset = model.add_opset_import();
      opset->set_domain(string());
      expect(":");
      opset->set_version(integer());
    } while (accept(","));
    expect("]");
    expect(">");
    graph(*model.mutable_graph());
    if (skip(); at_ != text_.size()) fail("nothing more is expected");
    return model;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n');
    throw std::runtime_error(fmt::format("line {}: {}, at '{}'", line, what, text_.substr(at_, 30)));
  }

  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool sees(std::string_view token) {
    skip();
    return text_.substr(at_).starts_with(token);
  }
  bool accept(std::string_view token) {
    if (!sees(token)) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail(fmt::format("'{}' is expected", token));
  }

  std::string word() {
    skip();
    const size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    if (begin == at_) fail("a name is expected");
    return std::string(text_.substr(begin, at_ - begin));
  }
  std::string string() {
    expect("\"");
    const size_t end = text_.find('"', at_);
    if (end == std::string_view::npos) fail("the string does not end");
    std::string made(text_.substr(at_, end - at_));
    at_ = end + 1;
    return made;
  }
  // Of a value: a word, or "" for one that is left out.
  std::string name() { return sees("\"") ? string() : word(); }

  // Digits with sign, point and exponent, or inf and nan.
  std::string digits() {
    skip();
    const size_t begin = at_;
    auto belongs = [&](char c) {
      return is_word(c) || c == '.' || ((c == '-' || c == '+') && (at_ == begin || text_[at_ - 1] == 'e'));
    };
    while (at_ < text_.size() && belongs(text_[at_])) ++at_;
    if (begin == at_) fail("a number is expected");
    return std::string(text_.substr(begin, at_ - begin));
  }
  int64_t integer() {
    const std::string made = digits();
    int64_t value = 0;
    auto [end, error] = std::from_chars(made.data(), made.data() + made.size(), value);
    if (error != std::errc() || end != made.data() + made.size()) fail(fmt::format("'{}' is not an integer", made));
    return value;
  }
  static bool is_integer(const std::string& made) { return made.find_first_of(".en") == std::string::npos; }

  // `one` until `end`, with commas between.
  template <typename One>
  void list(std::string_view end, One one) {
    if (accept(end)) return;
    do one();
    while (accept(","));
    expect(end);
  }

  void type(TypeProto& made, const std::string& called) {
    if (called == "seq" || called == "optional") {
      expect("(");
      type(called == "seq" ? *made.mutable_sequence_type()->mutable_elem_type()
                           : *made.mutable_optional_type()->mutable_elem_type(),
           word());
      return expect(")");
    }
    auto& tensor = *made.mutable_tensor_type();
    tensor.set_elem_type(element_type(called));
    if (!tensor.elem_type()) fail(fmt::format("'{}' is not a type", called));
    if (!accept("[")) {
      tensor.mutable_shape();
      return;
    }
    list("]", [&] {
      auto* dim = tensor.mutable_shape()->add_dim();
      if (accept("?")) return;
      const std::string extent = word();
      if (std::isdigit(static_cast<unsigned char>(extent[0])))
        dim->set_dim_value(std::stoll(extent));
      else
        dim->set_dim_param(extent);
    });
  }
  // `float[2,3] x`, or `x` where the type is left open.
  void value(ValueInfoProto& made) {
    std::string first = word();
    if (sees(",") || sees(")")) return made.set_name(std::move(first));
    type(*made.mutable_type(), first);
    made.set_name(word());
  }

  void tensor_type(TensorProto& made, const std::string& called) {
    made.set_data_type(element_type(called));
    if (!made.data_type()) fail(fmt::format("'{}' is not a type", called));
    if (accept("[")) list("]", [&] { made.add_dims(integer()); });
  }
  void tensor_values(TensorProto& made) {
    const auto type = static_cast<TensorProto::DataType>(made.data_type());
    if (accept("random")) return made.set_raw_data(random_bytes(made));
    if (accept("raw")) {
      const std::string hex = string();
      for (size_t i = 0; i + 1 < hex.size(); i += 2)
        made.mutable_raw_data()->push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
      return;
    }
    expect("{");
    made.mutable_raw_data();
    int64_t count = 0;
    list("}", [&] {
      ++count;
      if (type == TensorProto::STRING)
        made.add_string_data(string());
      else
        append_number(*made.mutable_raw_data(), type, digits());
    });
    if (type == TensorProto::STRING) made.clear_raw_data();
    if (count != element_count(made)) fail(fmt::format("{} values for {} elements", count, element_count(made)));
  }

  void graph(GraphProto& made) {
    made.set_name(word());
    expect("(");
    list(")", [&] { value(*made.add_input()); });
    expect("=>");
    expect("(");
    list(")", [&] { value(*made.add_output()); });
    if (accept("<"))
      list(">", [&] {
        TensorProto& tensor = *made.add_initializer();
        tensor_type(tensor, word());
        tensor.set_name(word());
        expect("=");
        tensor_values(tensor);
      });
    expect("{");
    while (!accept("}")) node(*made.add_node());
  }

  void node(NodeProto& made) {
    do made.add_output(name());
    while (accept(","));
    expect("=");
    std::string op = word();
    while (accept(".")) {
      made.set_domain(made.domain().empty() ? op : made.domain() + "." + op);
      op = word();
    }
    made.set_op_type(op);
    if (accept("<")) list(">", [&] { attribute(*made.add_attribute()); });
    expect("(");
    list(")", [&] { made.add_input(name()); });
  }

  void attribute(AttributeProto& made) {
    made.set_name(word());
    if (accept(":")) {  // the type of an empty list
      const std::string kind = word();
      made.set_type(kind == "ints"     ? AttributeProto::INTS
                    : kind == "floats" ? AttributeProto::FLOATS
                                       : AttributeProto::STRINGS);
    }
    expect("=");
    if (accept("[")) return attribute_list(made);
    if (sees("\"")) {
      made.set_type(AttributeProto::STRING);
      return made.set_s(string());
    }
    skip();
    if (std::isalpha(static_cast<unsigned char>(text_[at_])) && !sees("inf") && !sees("nan"))
      return named_attribute(made);
    const std::string number = digits();
    made.set_type(is_integer(number) ? AttributeProto::INT : AttributeProto::FLOAT);
    if (is_integer(number))
      made.set_i(std::stoll(number));
    else
      made.set_f(std::strtof(number.c_str(), nullptr));
  }
  void attribute_list(AttributeProto& made) {
    list("]", [&] {
      if (sees("\"")) {
        made.set_type(AttributeProto::STRINGS);
        return made.add_strings(string());
      }
      const std::string number = digits();
      made.set_type(is_integer(number) ? AttributeProto::INTS : AttributeProto::FLOATS);
      if (is_integer(number))
        made.add_ints(std::stoll(number));
      else
        made.add_floats(std::strtof(number.c_str(), nullptr));
    });
  }
  // A graph `name (...) => (...) {...}`, or a tensor `float[2] {1,2}`.
  void named_attribute(AttributeProto& made) {
    const size_t begin = at_;
    const std::string first = word();
    if (sees("(")) {
      at_ = begin;
      made.set_type(AttributeProto::GRAPH);
      return graph(*made.mutable_g());
    }
    made.set_type(AttributeProto::TENSOR);
    tensor_type(*made.mutable_t(), first);
    tensor_values(*made.mutable_t());
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

ModelProto parse_onnx(std::string_view text) { return Parser(text).model(); }

}  // namespace lowtide::golden
