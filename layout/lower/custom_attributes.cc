// SPDX-License-Identifier: Apache-2.0
#include "layout/lower/custom_attributes.h"

#include <flatbuffers/flexbuffers.h>
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "layout/lower/custom_types.h"
#include "stream/error.h"
#include "stream/printable.h"
#include "stream/recipe/recipe_reader.h"
#include "stream/shape.h"

namespace lowtide::layout {
namespace {

using onnx::Attribute;
using stream::Unsupported;

class AttributeMap {
 public:
  AttributeMap(const Attribute& attribute, flexbuffers::Builder& fbb, stream::Budget& budget)
      : attribute_(attribute), fbb_(fbb), budget_(budget) {}

  // The value without its key.
  void write() {
    using Form = Attribute::Type;
    switch (attribute_.type) {
      case Form::kFloat:
        return fbb_.Float(attribute_.f);
      case Form::kInt:
        return fbb_.Int(attribute_.i);
      case Form::kString:
        return text(attribute_.s);
      case Form::kFloats:
        return numbers(attribute_.floats);
      case Form::kInts:
        return numbers(attribute_.ints);
      case Form::kStrings:
        return texts(attribute_.strings);
      case Form::kTensor:
        return tensor(attribute_.tensors.at(0));
      case Form::kTensors:
        return list(attribute_.tensors, [&](const onnx::Tensor& one) { tensor(one); });
      case Form::kSparseTensor:
        return sparse(attribute_.sparse.at(0));
      case Form::kSparseTensors:
        return list(attribute_.sparse, [&](const onnx::SparseTensor& one) { sparse(one); });
      case Form::kTypeProto:
        return type(attribute_.types.at(0));
      case Form::kTypeProtos:
        return list(attribute_.types, [&](const onnx::ValueInfo& one) { type(one); });
      case Form::kGraph:
      case Form::kGraphs:
        refuse("is a graph, which a custom operator cannot hold");
      case Form::kUndefined:
        break;
    }
    refuse("has no type");
  }

 private:
  [[noreturn]] void refuse(const std::string& what, std::string hint = {}) const {
    throw Unsupported(fmt::format("its attribute '{}' {}", attribute_.name, what), std::move(hint));
  }

  template <typename T>
  void numbers(const std::vector<T>& values) {
    fbb_.Vector(values.data(), values.size());
  }
  template <typename T, typename Write>
  void list(const std::vector<T>& values, const Write& write_one) {
    const size_t start = fbb_.StartVector();
    for (const T& value : values) write_one(value);
    fbb_.EndVector(start, /*typed=*/false, /*fixed=*/false);
  }

  // ONNX's strings are bytes; readers of flexbuffers take a string for UTF-8.
  void text(const std::string& value) {
    if (stream::is_utf8(value))
      fbb_.String(value);
    else
      fbb_.Blob(value.data(), value.size());
  }
  void texts(const std::vector<std::string>& values) {
    list(values, [&](const std::string& one) { text(one); });
  }

  void shape(const char* key, const stream::Shape& dims) {
    fbb_.Key(key);
    numbers(std::vector<int64_t>(dims.begin(), dims.end()));
  }

  void tensor(const onnx::Tensor& value) {
    const size_t start = fbb_.StartMap();
    fbb_.String("type", std::string(custom_type_name(value.dtype)));
    shape("shape", value.dims);
    if (value.data) {
      fbb_.Key("bytes");
      const std::vector<uint8_t> bytes = bytes_of(value);
      fbb_.Blob(bytes.data(), bytes.size());
    } else {
      fbb_.Key("strings");
      texts(value.strings);
    }
    fbb_.EndMap(start);
  }

  std::vector<uint8_t> bytes_of(const onnx::Tensor& value) {
    const uint64_t bytes = value.data->bytes();
    if (bytes > kMostAttributeBytes)
      refuse(fmt::format("is a tensor of {} bytes, more than {}", bytes, kMostAttributeBytes),
             "a mapping of --custom-ops-map can pass it as an input: \"attributes_as_inputs\"");
    std::vector<uint8_t> out(bytes);
    if (bytes == 0) return out;
    stream::RecipeReader reader(value.data, budget_);
    reader.read_file_bytes(0, value.data->elements(), reinterpret_cast<std::byte*>(out.data()));
    return out;
  }

  void sparse(const onnx::SparseTensor& value) {
    const size_t start = fbb_.StartMap();
    fbb_.Key("values");
    tensor(value.values);
    fbb_.Key("indices");
    tensor(value.indices);
    shape("shape", value.dims);
    fbb_.EndMap(start);
  }

  // A dimension is a number, a name, or null.
  void type(const onnx::ValueInfo& value) {
    if (value.type != onnx::ValueInfo::Type::kTensor) refuse("is a type that is no tensor's");
    const size_t start = fbb_.StartMap();
    fbb_.String("type", std::string(custom_type_name(value.dtype)));
    if (value.has_shape) {
      fbb_.Key("shape");
      list(value.dims, [&](const onnx::Dimension& dim) {
        if (dim.value >= 0)
          fbb_.Int(dim.value);
        else if (!dim.has_name())
          fbb_.Null();
        else
          text(dim.symbol);
      });
    }
    fbb_.EndMap(start);
  }

  const Attribute& attribute_;
  flexbuffers::Builder& fbb_;
  stream::Budget& budget_;
};

// Keys end at a zero, and those of Lowtide begin with an underscore.
void check_name(const Attribute& attribute) {
  if (attribute.name.empty() || attribute.name.find('\0') != std::string::npos || !stream::is_utf8(attribute.name))
    throw Unsupported(fmt::format("its attribute '{}' has a name that no flexbuffer can have", attribute.name));
  for (const std::string_view own : {"_domain", "_op", "_opset"})
    if (attribute.name == own)
      throw Unsupported(fmt::format("its attribute '{}' has a name that is used for the operator", attribute.name));
}

}  // namespace

std::vector<uint8_t> attributes_as_flexbuffer(const onnx::Node& node, int64_t opset,
                                              const std::set<std::string>& left_out, stream::Budget& budget) {
  std::vector<const Attribute*> attributes;
  for (const Attribute& attribute : node.attributes)
    if (!left_out.contains(attribute.name)) attributes.push_back(&attribute);
  std::sort(attributes.begin(), attributes.end(),
            [](const Attribute* a, const Attribute* b) { return a->name < b->name; });
  flexbuffers::Builder fbb;
  const size_t start = fbb.StartMap();
  fbb.String("_domain", node.domain.empty() ? "ai.onnx" : node.domain.c_str());
  fbb.String("_op", node.op_type);
  fbb.Int("_opset", opset);
  for (const Attribute* attribute : attributes) {
    check_name(*attribute);
    fbb.Key(attribute->name);
    AttributeMap(*attribute, fbb, budget).write();
  }
  fbb.EndMap(start);
  fbb.Finish();
  return fbb.GetBuffer();
}

}  // namespace lowtide::layout
