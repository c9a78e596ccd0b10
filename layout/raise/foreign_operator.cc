// SPDX-License-Identifier: Apache-2.0
#include "layout/raise/foreign_operator.h"

#include <limits>
#include <optional>

#include "layout/raise/families.h"
#include "layout/raise/kept_operators.h"
#include "layout/raise/raising.h"
#include "stream/error.h"
#include "stream/printable.h"
#include "stream/tflite/flexbuffer.h"

namespace lowtide::layout {
namespace {

using stream::FlexValue;
using Type = onnx::Attribute::Type;

std::optional<int64_t> as_integer(const FlexValue& from) {
  if (const auto* flag = std::get_if<bool>(&from.value)) return *flag ? 1 : 0;
  if (const auto* number = std::get_if<int64_t>(&from.value)) return *number;
  if (const auto* number = std::get_if<uint64_t>(&from.value))
    if (*number <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return static_cast<int64_t>(*number);
  return std::nullopt;
}

// A number that f32, the type of ONNX's attributes, does not have is none.
std::optional<float> as_real(const FlexValue& from) {
  const auto* number = std::get_if<double>(&from.value);
  if (!number) return std::nullopt;
  const auto narrow = static_cast<float>(*number);
  const bool is_same = static_cast<double>(narrow) == *number || *number != *number;
  return is_same ? std::optional(narrow) : std::nullopt;
}

std::optional<std::string> as_text(const FlexValue& from) {
  if (const auto* text = std::get_if<std::string>(&from.value)) return *text;
  if (const auto* blob = std::get_if<FlexValue::Blob>(&from.value))
    return std::string(blob->bytes.begin(), blob->bytes.end());
  return std::nullopt;
}

// All elements through `as`, or nullopt.
template <typename T, typename As>
std::optional<std::vector<T>> all_as(const FlexValue::List& list, As as) {
  std::vector<T> out;
  for (const FlexValue& element : list) {
    auto one = as(element);
    if (!one) return std::nullopt;
    out.push_back(std::move(*one));
  }
  return out;
}

std::optional<onnx::Attribute> attribute_of(const FlexValue::Entry& entry) {
  onnx::Attribute out;
  out.name = entry.key;
  const FlexValue& from = entry.value;
  if (const auto number = as_integer(from)) return attribute(out.name, *number);
  if (const auto number = as_real(from)) return attribute(out.name, *number);
  if (const auto text = as_text(from)) return attribute(out.name, std::string_view(*text));
  const auto* list = std::get_if<FlexValue::List>(&from.value);
  if (!list) return std::nullopt;
  if (const auto numbers = all_as<int64_t>(*list, as_integer)) {
    out.type = Type::kInts;
    out.ints = *numbers;
  } else if (const auto reals = all_as<float>(*list, as_real)) {
    out.type = Type::kFloats;
    out.floats = *reals;
  } else if (const auto texts = all_as<std::string>(*list, as_text)) {
    out.type = Type::kStrings;
    out.strings = *texts;
  } else {
    return std::nullopt;
  }
  return out;
}

std::optional<std::vector<onnx::Attribute>> attributes_of_map(const std::vector<uint8_t>& bytes) {
  FlexValue root;
  try {
    root = stream::read_flexbuffer(bytes);
  } catch (const stream::Error&) {
    return std::nullopt;  // options may be any bytes
  }
  const auto* map = std::get_if<FlexValue::Map>(&root.value);
  if (!map) return std::nullopt;
  std::vector<onnx::Attribute> out;
  for (const FlexValue::Entry& entry : *map) {
    std::optional<onnx::Attribute> made = attribute_of(entry);
    if (!made || made->name.empty() || !stream::is_utf8(made->name)) return std::nullopt;
    if (!out.empty() && out.back().name >= made->name) return std::nullopt;
    out.push_back(std::move(*made));
  }
  return out;
}

}  // namespace

std::vector<onnx::Attribute> attributes_of_options(const std::vector<uint8_t>& bytes) {
  if (bytes.empty()) return {};
  if (auto made = attributes_of_map(bytes)) return std::move(*made);
  return {attribute("custom_options", std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()))};
}

void raise_foreign(Raising& r) {
  const auto& foreign = static_cast<const ForeignOperator&>(*r.options<core::CustomOptions>().described);
  Names inputs;
  for (size_t i = 0; i < r.op.inputs.size(); ++i) inputs.push_back(r.has(i) ? r.stored(i) : "");
  Attributes attributes = foreign.options;
  const Names made = r.onnx.nodes(foreign.name, std::move(inputs), r.op.outputs.size(), std::move(attributes));
  onnx::Node& node = r.onnx.out.nodes.back();
  node.domain = kKeptDomain;
  for (size_t i = 0; i < made.size(); ++i) node.outputs[i] = r.onnx.stored(r.op.outputs[i]);
  r.onnx.model.domains.insert(kKeptDomain);
}

}  // namespace lowtide::layout
