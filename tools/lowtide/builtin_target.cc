// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/builtin_target.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "schemas/tflite_generated.h"
#include "stream/nearest_name.h"
#include "tools/lowtide/json_reader.h"
#include "tools/lowtide/shipped_targets.h"

namespace lowtide::tools {
namespace {

using core::Kind;
using nlohmann::json;
using Rule = BuiltinTarget::Rule;
using Which = BuiltinTarget::Operands::Which;

constexpr int kBuiltinTargetVersion = 1;

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
class BuiltinTargetReader : private JsonReader {
 public:
  explicit BuiltinTargetReader(std::string file) : JsonReader(std::move(file)) {}

  BuiltinTarget read(const std::string& text) const {
    const json whole = parsed(text);
    check_fields("the target", whole, {"format", "version", "name", "source", "forms", "every", "operators"},
                 {"format", "version", "name", "operators"});
    if (whole["format"] != "lowtide-builtin-target") fail("it is not the description of a target");
    if (whole["version"] != kBuiltinTargetVersion)
      fail(fmt::format("it has version {}; this lowtide reads version {}", whole["version"].dump(),
                       kBuiltinTargetVersion));
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
  Kind kind(const std::string& op) const {
    const auto found = builtin_kinds().find(op);
    if (found != builtin_kinds().end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [name, ignored] : builtin_kinds()) names.push_back(name);
    fail(fmt::format("TFLite has no operator '{}'{}", op, stream::did_you_mean(op, names)));
  }

  std::vector<Rule> rules(const std::string& what, const json& list) const {
    if (!list.is_array()) fail(fmt::format("'{}' is not a list of rules", what));
    std::vector<Rule> out;
    for (const json& item : list) out.push_back(rule(what, item));
    return out;
  }

  Rule rule(const std::string& what, const json& item) const {
    check_fields(what + ": a rule", item,
                 {"inputs", "outputs", "rank", "dtypes", "constant", "extents", "elements", "like_output", "fixed",
                  "version", "computed_inputs", "different_inputs", "result_rank", "says", "source"},
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
      for (const json& name : item["dtypes"]) out.dtypes.push_back(dtype(what + ": dtypes", name));
    }
    if (item.contains("constant")) out.constant = flag(what + ": constant", item["constant"]);
    if (item.contains("extents")) {
      if (!item["extents"].is_array()) fail(fmt::format("{}: 'extents' is not a list", what));
      for (const json& some : item["extents"]) out.extents.push_back(range(what + ": extents", some));
    }
    if (item.contains("elements")) out.elements = range(what + ": elements", item["elements"]);
    if (item.contains("like_output")) out.like_output = flag(what + ": like_output", item["like_output"]);
    if (item.contains("fixed")) out.fixed = flag(what + ": fixed", item["fixed"]);
    if (item.contains("version")) out.version = range(what + ": version", item["version"]);
    if (item.contains("computed_inputs"))
      out.computed_inputs = range(what + ": computed_inputs", item["computed_inputs"]);
    if (item.contains("different_inputs"))
      out.different_inputs = flag(what + ": different_inputs", item["different_inputs"]);
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
};

}  // namespace

BuiltinTarget read_builtin_target(const std::string& name_or_path) {
  return BuiltinTargetReader(name_or_path).read(text_of_target("--for", name_or_path, shipped_builtin_targets()));
}

}  // namespace lowtide::tools
