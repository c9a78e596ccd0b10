// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/target.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "layout/lower/table.h"
#include "stream/nearest_name.h"
#include "tools/lowtide/json_reader.h"
#include "tools/lowtide/shipped_targets.h"

namespace lowtide::tools {
namespace {

using nlohmann::json;

constexpr int kTargetVersion = 1;

// Reads a description, field by field.
class TargetReader : private JsonReader {
 public:
  explicit TargetReader(std::string file) : JsonReader(std::move(file)) {}

  Target read(const std::string& text) const {
    const json whole = parsed(text);
    check_fields(
        "the target", whole,
        {"format", "version", "name", "source", "writes", "max_pieces", "max_piece_bytes", "patterns", "operators"},
        {"format", "version", "name", "operators"});
    if (whole["format"] != "lowtide-target") fail("it is not the description of a target");
    if (whole["version"] != kTargetVersion)
      fail(fmt::format("it has version {}; this lowtide reads version {}", whole["version"].dump(), kTargetVersion));
    Target out;
    out.name = word("name", whole["name"]);
    if (whole.contains("source")) word("source", whole["source"]);
    if (whole.contains("writes")) {
      const std::string writes = word("writes", whole["writes"]);
      if (writes != "tflite" && writes != "onnx") fail(fmt::format("'writes' is '{}', not tflite or onnx", writes));
      out.writes_tflite = writes == "tflite";
    }
    if (whole.contains("max_pieces"))
      out.max_pieces = static_cast<size_t>(number("max_pieces", whole["max_pieces"], 1));
    if (whole.contains("max_piece_bytes"))
      out.max_piece_bytes = static_cast<uint64_t>(number("max_piece_bytes", whole["max_piece_bytes"], 1));
    out.takes_all = whole["operators"] == "all";
    if (!out.takes_all && !whole["operators"].is_array()) fail("'operators' is neither a list nor \"all\"");
    if (out.takes_all && out.writes_tflite)
      fail("'operators' is \"all\", which only a target of .onnx pieces can take");
    if (!out.takes_all)
      for (const json& item : whole["operators"]) add_entry(item, out);
    if (whole.contains("patterns")) add_patterns(whole["patterns"], out);
    return out;
  }

 private:
  void add_entry(const json& item, Target& target) const {
    check_fields("an operator", item,
                 {"op", "source", "inputs", "outputs", "input_count", "output_count", "attributes", "only_in_pattern",
                  "only_at_border"},
                 {"op"});
    const std::string op = word("'op'", item["op"]);
    check_operator(op);
    Target::Entry entry;
    if (item.contains("source")) entry.source = word("'source'", item["source"]);
    if (item.contains("input_count")) entry.input_count = range(op + ": input_count", item["input_count"], 0);
    if (item.contains("output_count")) entry.output_count = range(op + ": output_count", item["output_count"], 0);
    for (const auto& [name, list] : {std::pair{"inputs", &entry.inputs}, std::pair{"outputs", &entry.outputs}}) {
      if (!item.contains(name)) continue;
      if (!item[name].is_array()) fail(fmt::format("{}: '{}' is not a list", op, name));
      for (const json& some : item[name]) list->push_back(operand(fmt::format("{}: {}", op, name), some));
    }
    if (item.contains("attributes")) {
      if (!item["attributes"].is_array()) fail(fmt::format("{}: 'attributes' is not a list", op));
      for (const json& some : item["attributes"]) entry.attributes.push_back(attribute(op, some));
    }
    if (item.contains("only_in_pattern"))
      entry.only_in_pattern = flag(op + ": 'only_in_pattern'", item["only_in_pattern"]);
    if (item.contains("only_at_border")) entry.only_at_border = flag(op + ": 'only_at_border'", item["only_at_border"]);
    target.operators[op].push_back(std::move(entry));
  }

  void add_patterns(const json& list, Target& target) const {
    if (!list.is_array()) fail("'patterns' is not a list");
    for (const json& item : list) {
      check_fields("a pattern", item, {"ops", "source"}, {"ops"});
      if (item.contains("source")) word("'source'", item["source"]);
      if (!item["ops"].is_array() || item["ops"].size() < 2) fail("a pattern: 'ops' has fewer than two operators");
      target.patterns.emplace_back();
      for (const json& name : item["ops"]) {
        const std::string op = word("a pattern: an operator", name);
        check_operator(op);
        if (!target.takes_all && !target.operators.contains(op))
          fail(
              fmt::format("a pattern has '{}', which is not in 'operators': no node of it could be in the target", op));
        target.patterns.back().push_back(op);
      }
    }
  }

  // Any operator of a foreign domain; of ai.onnx those that are known.
  void check_operator(const std::string& op) const {
    if (op.find('.') != op.npos) return;
    std::vector<std::string> names = {"Dropout", "Upsample", "Scatter", "GroupNormalization", "Optional"};
    for (const layout::LowerRow& row : layout::lowerings())
      if (row.domain.empty()) names.emplace_back(row.op);
    if (std::find(names.begin(), names.end(), op) == names.end())
      fail(fmt::format("ai.onnx has no operator '{}'{}", op, stream::did_you_mean(op, names)));
  }

  Target::Operand operand(const std::string& what, const json& value) const {
    check_fields(what, value, {"at", "constant", "dtypes", "rank", "wide_rank", "extents"}, {"at"});
    Target::Operand out;
    if (value["at"] != "each") out.at = static_cast<size_t>(number(what + ": 'at'", value["at"], 0));
    if (value.contains("constant")) out.constant = flag(what + ": 'constant'", value["constant"]);
    if (value.contains("dtypes")) {
      if (!value["dtypes"].is_array() || value["dtypes"].empty()) fail(fmt::format("{}: 'dtypes' lists nothing", what));
      for (const json& name : value["dtypes"]) out.dtypes.push_back(dtype(what, name));
    }
    if (value.contains("rank")) out.rank = range(what + ": rank", value["rank"], 0);
    if (value.contains("wide_rank")) out.wide_rank = range(what + ": wide_rank", value["wide_rank"], 0);
    if (value.contains("extents")) out.extents = range(what + ": extents", value["extents"], 0);
    if (out.rank && out.wide_rank && out.wide_rank->least > out.rank->most)
      fail(fmt::format("{}: rank and wide_rank contradict each other", what));
    return out;
  }

  Target::Attribute attribute(const std::string& op, const json& value) const {
    check_fields(op + ": an attribute", value, {"name", "range", "values", "default"}, {"name"});
    Target::Attribute out;
    out.name = word(op + ": 'name'", value["name"]);
    const std::string what = fmt::format("{}: attribute '{}'", op, out.name);
    if (value.contains("range")) out.range = range(what, value["range"]);
    if (value.contains("values")) {
      if (!value["values"].is_array() || value["values"].empty()) fail(fmt::format("{}: 'values' lists nothing", what));
      for (const json& some : value["values"]) {
        if (some.is_string())
          out.texts.push_back(some.get<std::string>());
        else
          out.numbers.push_back(number(what, some));
      }
      if (!out.texts.empty() && !out.numbers.empty()) fail(fmt::format("{}: 'values' has texts and numbers", what));
    }
    if (out.range && !out.texts.empty()) fail(fmt::format("{}: a range is of numbers, and 'values' are texts", what));
    if (out.range && !out.numbers.empty() &&
        std::none_of(out.numbers.begin(), out.numbers.end(), [&](int64_t some) { return out.range->has(some); }))
      fail(fmt::format("{}: none of 'values' is in 'range'", what));
    if (value.contains("default")) {
      if (value["default"].is_string())
        out.text = value["default"].get<std::string>();
      else
        out.number = number(what, value["default"]);
    }
    return out;
  }
};

}  // namespace

Target read_target(const std::string& name_or_path) {
  return TargetReader(name_or_path).read(text_of_target("--target", name_or_path, shipped_targets()));
}

}  // namespace lowtide::tools
