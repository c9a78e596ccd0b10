// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/builtin_target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <span>

#include "schemas/tflite_generated.h"
#include "stream/dtype.h"
#include "stream/error.h"
#include "stream/file/file.h"
#include "stream/nearest_name.h"
#include "tools/lowtide/command_line.h"
#include "tools/lowtide/shipped_targets.h"

namespace lowtide::tools {
namespace {

using core::Kind;
using nlohmann::json;
using stream::Code;
using stream::DType;
using stream::Error;
using Rule = BuiltinTarget::Rule;
using Which = BuiltinTarget::Operands::Which;

constexpr uint64_t kMostDescriptionBytes = uint64_t{4} << 20;

// All of TFLite's, also those that lowtide never writes.
const std::map<std::string, Kind>& builtin_kinds() {
  static const std::map<std::string, Kind> kinds = [] {
    std::map<std::string, Kind> out;
    for (const tflite::BuiltinOperator code : tflite::EnumValuesBuiltinOperator())  // a kind is a builtin's code
      out.emplace(tflite::EnumNameBuiltinOperator(code), static_cast<Kind>(code));
    return out;
  }();
  return kinds;
}

// Reads a description, field by field.
class DescriptionReader {
 public:
  explicit DescriptionReader(std::string file) : file_(std::move(file)) {}

  BuiltinTarget read(const std::string& text) const {
    json whole;
    try {
      whole = json::parse(text);
    } catch (const json::exception& error) {
      fail(fmt::format("it is not JSON: {}", error.what()));
    }
    if (whole.is_object() && whole.contains("format") && whole["format"] == "lowtide-target")
      fail("it describes ONNX nodes, for lowtide partition --target; --for takes a description of TFLite operators");
    check("the target", whole, {"format", "version", "name", "source", "forms", "every", "operators"},
          {"format", "version", "name", "operators"});
    if (whole["format"] != "lowtide-builtin-target") fail("it is not the description of a target");
    if (whole["version"] != 1)
      fail(fmt::format("it has version {}; this lowtide reads version 1", whole["version"].dump()));
    BuiltinTarget out;
    out.name = word("name", whole["name"]);
    if (whole.contains("source")) word("source", whole["source"]);
    if (whole.contains("forms")) {
      const std::string forms = word("forms", whole["forms"]);
      if (forms != "gpu" && forms != "any") fail(fmt::format("'forms' is '{}', not gpu or any", forms));
      out.gpu_forms = forms == "gpu";
    }
    if (whole.contains("every")) out.every = rules("every", whole["every"]);
    if (!whole["operators"].is_object()) fail("'operators' is not an object");
    for (const auto& [op, list] : whole["operators"].items()) out.operators.emplace(kind(op), rules(op, list));
    return out;
  }

 private:
  [[noreturn]] void fail(const std::string& text) const { throw Error(Code::kMalformed, text, {.file = file_}); }

  void check(const std::string& what, const json& value, std::initializer_list<const char*> known,
             std::initializer_list<const char*> needed) const {
    if (!value.is_object()) fail(fmt::format("{} is not an object", what));
    const std::vector<std::string> names(known.begin(), known.end());
    for (const auto& [key, ignored] : value.items())
      if (std::find(names.begin(), names.end(), key) == names.end())
        fail(fmt::format("{} has an unknown field '{}'{}", what, key, stream::did_you_mean(key, names)));
    for (const char* name : needed)
      if (!value.contains(name)) fail(fmt::format("{} has no field '{}'", what, name));
  }
  std::string word(const std::string& what, const json& value) const {
    if (!value.is_string()) fail(fmt::format("{} is not a text", what));
    return value.get<std::string>();
  }
  bool yes(const std::string& what, const json& value) const {
    if (!value.is_boolean()) fail(fmt::format("{} is neither true nor false", what));
    return value.get<bool>();
  }
  int64_t number(const std::string& what, const json& value) const {
    if (!value.is_number_integer()) fail(fmt::format("{} is no whole number", what));
    return value.get<int64_t>();
  }
  BuiltinTarget::Range range(const std::string& what, const json& value) const {
    if (!value.is_array() || value.size() != 2) fail(fmt::format("{} is not [least, most]", what));
    const BuiltinTarget::Range out{number(what, value[0]), number(what, value[1])};
    if (out.least > out.most) fail(fmt::format("{} is from {} to {}: nothing is in it", what, out.least, out.most));
    return out;
  }

  Kind kind(const std::string& op) const {
    const auto found = builtin_kinds().find(op);
    if (found != builtin_kinds().end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [name, ignored] : builtin_kinds()) names.push_back(name);
    fail(fmt::format("TFLite has no operator '{}'{}", op, stream::did_you_mean(op, names)));
  }

  DType dtype(const std::string& what, const std::string& name) const {
    for (int i = 0; i < static_cast<int>(DType::kUndefined); ++i)
      if (stream::dtype_name(static_cast<DType>(i)) == name) return static_cast<DType>(i);
    fail(fmt::format("{}: '{}' is no element type", what, name));
  }

  std::vector<Rule> rules(const std::string& what, const json& list) const {
    if (!list.is_array()) fail(fmt::format("'{}' is not a list of rules", what));
    std::vector<Rule> out;
    for (const json& item : list) out.push_back(rule(what, item));
    return out;
  }

  Rule rule(const std::string& what, const json& item) const {
    check(what + ": a rule", item,
          {"inputs", "outputs", "rank", "dtypes", "constant", "extents", "elements", "like_output", "fixed", "version",
           "computed_inputs", "different_inputs", "result_rank", "says", "source"},
          {});
    Rule out;
    if (item.contains("inputs") && item.contains("outputs"))
      fail(fmt::format("{}: a rule is about inputs or about outputs", what));
    if (item.contains("inputs")) out.operands = operands(what, item["inputs"], false);
    if (item.contains("outputs")) out.operands = operands(what, item["outputs"], true);
    for (const char* name : {"rank", "dtypes", "constant", "extents", "elements", "like_output", "fixed"})
      if (item.contains(name) && !out.operands) fail(fmt::format("{}: '{}' needs 'inputs' or 'outputs'", what, name));
    if (item.contains("rank")) out.rank = range(what + ": rank", item["rank"]);
    if (item.contains("dtypes")) {
      if (!item["dtypes"].is_array() || item["dtypes"].empty()) fail(fmt::format("{}: 'dtypes' lists nothing", what));
      for (const json& name : item["dtypes"]) out.dtypes.push_back(dtype(what, word(what + ": dtypes", name)));
    }
    if (item.contains("constant")) out.constant = yes(what + ": constant", item["constant"]);
    if (item.contains("extents")) {
      if (!item["extents"].is_array()) fail(fmt::format("{}: 'extents' is not a list", what));
      for (const json& some : item["extents"]) out.extents.push_back(range(what + ": extents", some));
    }
    if (item.contains("elements")) out.elements = range(what + ": elements", item["elements"]);
    if (item.contains("like_output")) out.like_output = yes(what + ": like_output", item["like_output"]);
    if (item.contains("fixed")) out.fixed = yes(what + ": fixed", item["fixed"]);
    if (item.contains("version")) out.version = range(what + ": version", item["version"]);
    if (item.contains("computed_inputs")) out.computed_inputs = range(what + ": inputs", item["computed_inputs"]);
    if (item.contains("different_inputs")) out.different_inputs = yes(what + ": inputs", item["different_inputs"]);
    if (item.contains("result_rank")) out.result_rank = range(what + ": result_rank", item["result_rank"]);
    if (item.contains("says")) out.says = word(what + ": says", item["says"]);
    if (item.contains("source")) out.source = word(what + ": source", item["source"]);
    return out;
  }

  BuiltinTarget::Operands operands(const std::string& what, const json& value, bool outputs) const {
    BuiltinTarget::Operands out{.outputs = outputs};
    if (value == "each") return out;
    if (value == "computed" && !outputs) {
      out.which = Which::kComputed;
      return out;
    }
    const int64_t at = number(what + ": the place of an operand", value);
    if (at < 0) fail(fmt::format("{}: the place of an operand is {}", what, at));
    out.which = Which::kOne;
    out.at = static_cast<size_t>(at);
    return out;
  }

  std::string file_;
};

}  // namespace

BuiltinTarget read_builtin_target(const std::string& name_or_path) {
  std::vector<std::string> names;
  for (const ShippedTarget& shipped : shipped_builtin_targets()) {
    if (shipped.name == name_or_path) return DescriptionReader(name_or_path).read(std::string(shipped.json));
    names.emplace_back(shipped.name);
  }
  if (!name_or_path.ends_with(".json"))
    usage_error(fmt::format("--for: '{}' is neither a file FILE.json nor one of {}{}", name_or_path,
                            fmt::join(names, ", "), stream::did_you_mean(name_or_path, names)));
  const auto source = stream::open_file(name_or_path);
  if (source->size() > kMostDescriptionBytes)
    throw Error(Code::kMalformed, fmt::format("a target's description has at most {} MiB", kMostDescriptionBytes >> 20),
                {.file = name_or_path});
  std::string text(source->size(), '\0');
  source->read_at(0, std::as_writable_bytes(std::span(text)));
  return DescriptionReader(name_or_path).read(text);
}

}  // namespace lowtide::tools
