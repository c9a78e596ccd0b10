// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/json_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "stream/error.h"
#include "stream/file/file.h"
#include "stream/nearest_name.h"
#include "tools/library/json_error.h"
#include "tools/lowtide/command_line.h"

namespace lowtide::tools {

using nlohmann::json;
using stream::Code;
using stream::DType;
using stream::Error;

std::string text_of_file(const std::string& path, uint64_t most_bytes, const std::string& what) {
  const auto source = stream::open_file(path);
  if (source->size() > most_bytes)
    throw Error(Code::kMalformed, fmt::format("{} has at most {} MiB", what, most_bytes >> 20), {.file = path});
  std::string out(source->size(), '\0');
  source->read_at(0, std::as_writable_bytes(std::span(out)));
  return out;
}

std::string text_of_target(const std::string& option, const std::string& name_or_path,
                           std::span<const ShippedTarget> shipped) {
  constexpr uint64_t kMostBytes = uint64_t{4} << 20;
  std::vector<std::string> names;
  for (const ShippedTarget& target : shipped) {
    if (target.name == name_or_path) return std::string(target.json);
    names.emplace_back(target.name);
  }
  if (!name_or_path.ends_with(".json"))
    usage_error(fmt::format("{}: '{}' is neither a file FILE.json nor one of {}{}", option, name_or_path,
                            fmt::join(names, ", "), stream::did_you_mean(name_or_path, names)));
  return text_of_file(name_or_path, kMostBytes, "a target's description");
}

json JsonReader::parsed(const std::string& text) const {
  std::vector<std::set<std::string>> fields;  // of the objects that the parser is in
  auto check_once = [&](int, json::parse_event_t event, const json& value) {
    if (event == json::parse_event_t::object_start) fields.emplace_back();
    if (event == json::parse_event_t::object_end) fields.pop_back();
    if (event == json::parse_event_t::key && !fields.back().insert(value.get<std::string>()).second)
      fail(fmt::format("it has the field '{}' twice in one object", value.get<std::string>()));
    return true;
  };
  try {
    return json::parse(text, check_once);
  } catch (const json::exception& error) {
    fail(json_error(error));
  }
}

void JsonReader::fail(const std::string& text) const { throw Error(Code::kMalformed, text, {.file = file_}); }

void JsonReader::check_fields(const std::string& what, const json& value, std::initializer_list<const char*> known,
                              std::initializer_list<const char*> needed) const {
  if (!value.is_object()) fail(fmt::format("{} is not an object", what));
  const std::vector<std::string> names(known.begin(), known.end());
  for (const auto& [key, ignored] : value.items())
    if (std::find(names.begin(), names.end(), key) == names.end())
      fail(fmt::format("{} has an unknown field '{}'{}", what, key, stream::did_you_mean(key, names)));
  for (const char* name : needed)
    if (!value.contains(name)) fail(fmt::format("{} has no field '{}'", what, name));
}

std::string JsonReader::word(const std::string& what, const json& value) const {
  if (!value.is_string()) fail(fmt::format("{} is not a text", what));
  return value.get<std::string>();
}

bool JsonReader::flag(const std::string& what, const json& value) const {
  if (!value.is_boolean()) fail(fmt::format("{} is neither true nor false", what));
  return value.get<bool>();
}

int64_t JsonReader::number(const std::string& what, const json& value, int64_t least) const {
  // Of an unsigned number above the most, get() would give a negative one.
  const bool fits = value.is_number_integer() &&
                    !(value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) &&
                    value.get<int64_t>() >= least;
  if (!fits)
    fail(fmt::format("{} is not an integer{}", what, least == INT64_MIN ? "" : fmt::format(" of {} or more", least)));
  return value.get<int64_t>();
}

NumberRange JsonReader::range(const std::string& what, const json& value, int64_t least) const {
  if (!value.is_array() || value.size() != 2) fail(fmt::format("{} is not [least, most]", what));
  const NumberRange out{number(what, value[0], least), number(what, value[1], least)};
  if (out.least > out.most) fail(fmt::format("{} is from {} to {}: nothing is in it", what, out.least, out.most));
  return out;
}

DType JsonReader::dtype(const std::string& what, const json& value) const {
  const std::string name = word(what, value);
  for (int i = 0; i < static_cast<int>(DType::kUndefined); ++i)
    if (stream::dtype_name(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  fail(fmt::format("{}: '{}' is no element type", what, name));
}

}  // namespace lowtide::tools
