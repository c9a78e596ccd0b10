// SPDX-License-Identifier: Apache-2.0
#include "tools/library/custom_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "layout/lower/custom_types.h"
#include "stream/error.h"
#include "stream/file/file.h"
#include "stream/nearest_name.h"
#include "tools/library/json_error.h"

namespace lowtide::tools {
namespace {

using Json = nlohmann::json;
using layout::CustomMapping;
using stream::Code;
using stream::Error;

constexpr uint64_t kMostMapBytes = uint64_t{1} << 20;

[[noreturn]] void wrong_option(std::string text) { throw Error(Code::kUsage, std::move(text)); }

// ---- --custom-ops ----

bool is_name(const layout::OperatorName& name) { return !name.op.empty(); }

void read_allowed(const std::string& text, layout::CustomChoice& out) {
  constexpr std::string_view kAllow = "allow", kAllowThese = "allow=";
  if (text.empty()) return;
  if (text == kAllow) {
    out.all = true;
    return;
  }
  if (!text.starts_with(kAllowThese))
    wrong_option(fmt::format("--custom-ops: '{}' is neither allow nor allow=Op,domain:Op", text));
  std::string_view rest = std::string_view(text).substr(kAllowThese.size());
  for (;;) {
    const size_t comma = rest.find(',');
    layout::OperatorName name = layout::operator_name(std::string(rest.substr(0, comma)));
    if (!is_name(name)) wrong_option(fmt::format("--custom-ops: '{}' has an operator without a name", text));
    out.named.push_back(std::move(name));
    if (comma == std::string_view::npos) return;
    rest.remove_prefix(comma + 1);
  }
}

// ---- --custom-ops-map ----

// A value of the file and its place in it, such as operators[0].outputs[1].
class Entry {
 public:
  Entry(const Json& json, std::string place, const std::string& file)
      : json_(json), place_(std::move(place)), file_(file) {}

  [[noreturn]] void fail(const std::string& text) const {
    throw Error(Code::kMalformed, place_.empty() ? text : fmt::format("{}: {}", place_, text), {.file = file_});
  }

  void need_keys(const std::vector<std::string>& known) const {
    if (!json_.is_object()) fail("it is no object");
    for (const auto& [key, value] : json_.items())
      if (std::find(known.begin(), known.end(), key) == known.end())
        fail(fmt::format("'{}' is not known{} (keys: {})", key, stream::did_you_mean(key, known),
                         fmt::join(known, ", ")));
  }
  bool has(const char* key) const { return json_.contains(key); }
  Entry at(const char* key) const {
    if (!has(key)) fail(fmt::format("'{}' is missing", key));
    return {json_.at(key), place_.empty() ? key : fmt::format("{}.{}", place_, key), file_};
  }
  std::vector<Entry> list() const {
    if (!json_.is_array()) fail("it is no list");
    std::vector<Entry> out;
    for (size_t i = 0; i < json_.size(); ++i) out.emplace_back(json_[i], fmt::format("{}[{}]", place_, i), file_);
    return out;
  }
  std::string text() const {
    if (!json_.is_string()) fail("it is no text");
    return json_.get<std::string>();
  }
  bool is_number() const { return json_.is_number_integer(); }
  int64_t number(int64_t least, int64_t most) const {
    // Of an unsigned number above the most, get() would give a negative one.
    const bool fits = json_.is_number_integer() &&
                      !(json_.is_number_unsigned() && json_.get<uint64_t>() > static_cast<uint64_t>(most)) &&
                      json_.get<int64_t>() >= least && json_.get<int64_t>() <= most;
    if (!fits) fail(fmt::format("it is no whole number from {} to {}", least, most));
    return json_.get<int64_t>();
  }

 private:
  const Json& json_;
  std::string place_;
  const std::string& file_;
};

constexpr int64_t kMostNumber = std::numeric_limits<int32_t>::max();

// "input0[1]"
std::optional<layout::InputExtent> input_extent(std::string_view text) {
  constexpr std::string_view kInput = "input";
  if (!text.starts_with(kInput) || !text.ends_with(']')) return std::nullopt;
  const char* end = text.data() + text.size() - 1;
  uint16_t input = 0;
  int16_t axis = 0;
  const auto [middle, error] = std::from_chars(text.data() + kInput.size(), end, input);
  if (error != std::errc() || middle == end || *middle != '[') return std::nullopt;
  const auto [rest, axis_error] = std::from_chars(middle + 1, end, axis);
  if (axis_error != std::errc() || rest != end) return std::nullopt;
  return layout::InputExtent{input, axis};
}

layout::Extent extent(const Entry& entry) {
  if (entry.is_number()) return entry.number(0, kMostNumber);
  const std::string text = entry.text();
  if (text == "?") return std::monostate();
  const auto of_input = input_extent(text);
  if (!of_input) entry.fail(fmt::format("'{}' is no extent: a number, \"input0[1]\" or \"?\"", text));
  return *of_input;
}

layout::OutputRule output_rule(const Entry& entry) {
  entry.need_keys({"type", "shape", "like"});
  layout::OutputRule out;
  if (entry.has("type")) {
    const std::string name = entry.at("type").text();
    out.dtype = layout::custom_type(name);
    if (!out.dtype || *out.dtype == stream::DType::kString)
      entry.at("type").fail(fmt::format("'{}' is no type of tensors, such as float32", name));
  }
  if (entry.has("like")) out.like = static_cast<size_t>(entry.at("like").number(0, kMostNumber));
  if (entry.has("shape")) {
    out.shape.emplace();
    for (const Entry& one : entry.at("shape").list()) out.shape->push_back(extent(one));
  }
  return out;
}

CustomMapping mapping(const Entry& entry) {
  entry.need_keys({"operator", "name", "version", "axis_order", "attributes_as_inputs", "outputs"});
  CustomMapping out;
  out.of = layout::operator_name(entry.at("operator").text());
  if (!is_name(out.of)) entry.at("operator").fail("the operator has no name");
  if (entry.has("name")) {
    out.name = entry.at("name").text();
    if (out.name.empty() || out.name.find('\0') != std::string::npos) entry.at("name").fail("it is no name");
  }
  if (entry.has("version")) out.version = static_cast<int32_t>(entry.at("version").number(1, kMostNumber));
  if (entry.has("axis_order")) {
    const std::string order = entry.at("axis_order").text();
    if (order != "onnx" && order != "any")
      entry.at("axis_order").fail(fmt::format("'{}' is neither onnx nor any", order));
    out.any_axis_order = order == "any";
  }
  if (entry.has("attributes_as_inputs"))
    for (const Entry& one : entry.at("attributes_as_inputs").list()) out.attributes_as_inputs.push_back(one.text());
  if (entry.has("outputs"))
    for (const Entry& one : entry.at("outputs").list()) out.outputs.push_back(output_rule(one));
  return out;
}

std::string text_of_file(const std::string& path) {
  const auto source = stream::open_file(path);
  if (source->size() > kMostMapBytes)
    throw Error(Code::kMalformed, fmt::format("a mapping has at most {} bytes", kMostMapBytes), {.file = path});
  std::string out(source->size(), '\0');
  source->read_at(0, std::as_writable_bytes(std::span(out)));
  return out;
}

void read_map(const std::string& path, layout::CustomChoice& out) {
  constexpr int kMostDepth = 16;
  const std::string text = text_of_file(path);
  Json json;
  try {
    json = Json::parse(text, [](int depth, Json::parse_event_t, Json&) {
      if (depth > kMostDepth) throw Error(Code::kMalformed, "it is nested too deeply");
      return true;
    });
  } catch (const Json::exception& error) {
    throw Error(Code::kMalformed, json_error(error), {.file = path});
  } catch (Error& error) {
    error.add_place({.file = path});
    throw;
  }
  const Entry root(json, "", path);
  root.need_keys({"$schema", "operators"});
  for (const Entry& entry : root.at("operators").list()) out.mappings.push_back(mapping(entry));
}

}  // namespace

layout::CustomChoice custom_choice(const std::string& allowed, const std::string& map) {
  layout::CustomChoice out;
  read_allowed(allowed, out);
  if (!map.empty()) read_map(map, out);
  return out;
}

}  // namespace lowtide::tools
