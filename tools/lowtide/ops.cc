// SPDX-License-Identifier: Apache-2.0
// lowtide ops: the ONNX operators that the lowering knows.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "layout/lower/operators.h"
#include "stream/nearest_name.h"
#include "tools/lowtide/commands.h"

namespace lowtide::tools {
namespace {

using layout::KnownOperator;

std::string full_name(const KnownOperator& known) {
  return known.domain.empty() ? std::string(known.op) : fmt::format("{}.{}", known.domain, known.op);
}

std::string lower_case(std::string text) {
  for (char& letter : text) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return text;
}

// Those of that name, in every domain; capitals do not matter.
std::vector<KnownOperator> named(const std::vector<KnownOperator>& all, const std::string& name) {
  std::vector<KnownOperator> out;
  std::vector<std::string> names;
  for (const KnownOperator& known : all) {
    names.push_back(full_name(known));
    const std::string wanted = lower_case(name);
    if (lower_case(std::string(known.op)) == wanted || lower_case(names.back()) == wanted) out.push_back(known);
  }
  if (out.empty())
    usage_error(fmt::format("the operator '{}' is not known{} (lowtide ops lists all)", name,
                            stream::did_you_mean(name, names)));
  return out;
}

std::string opsets(const KnownOperator& known) {
  if (!known.domain.empty()) return "any opset";
  return fmt::format("opset {} to {}", known.since, layout::kNewestOpset);
}

std::string builtin_names(const KnownOperator& known) {
  if (!known.builtins) return "no row: it depends on the operators around it";
  return known.builtins->empty() ? "nothing: it is evaluated or removed"
                                 : fmt::format("{}", fmt::join(*known.builtins, " "));
}

std::string range(int least, std::optional<int> most) {
  if (!most) return fmt::format("{} or more", least);
  return least == *most ? std::to_string(least) : fmt::format("{} to {}", least, *most);
}

std::string page_of(const KnownOperator& known) {
  std::string out = fmt::format("{} ({})\n  inputs   {}\n", full_name(known), opsets(known),
                                range(known.min_inputs, known.max_inputs));
  for (const layout::NewerAttribute& attribute : known.attributes)
    out += fmt::format("  attribute '{}' from opset {} on\n", attribute.name, attribute.since);
  return out + fmt::format("  becomes  {}\n", builtin_names(known));
}

nlohmann::ordered_json values_of(const KnownOperator& known) {
  nlohmann::ordered_json out;
  out["domain"] = known.domain.empty() ? "ai.onnx" : known.domain;
  out["operator"] = known.op;
  out["since"] = known.since;
  out["least_inputs"] = known.min_inputs;
  out["most_inputs"] = known.max_inputs ? nlohmann::ordered_json(*known.max_inputs) : nullptr;
  out["most_outputs"] = known.max_outputs ? nlohmann::ordered_json(*known.max_outputs) : nullptr;
  out["newer_attributes"] = nlohmann::ordered_json::object();
  for (const layout::NewerAttribute& attribute : known.attributes)
    out["newer_attributes"][std::string(attribute.name)] = attribute.since;
  out["builtins"] = known.builtins ? nlohmann::ordered_json(*known.builtins) : nullptr;
  return out;
}

}  // namespace

void list_operators(const OpsCommand& options) {
  const std::vector<KnownOperator> all = layout::known_operators();
  const std::vector<KnownOperator> shown = options.name.empty() ? all : named(all, options.name);
  if (options.json) {
    nlohmann::ordered_json out;
    out["newest_opset"] = layout::kNewestOpset;
    out["operators"] = nlohmann::ordered_json::array();
    for (const KnownOperator& known : shown) out["operators"].push_back(values_of(known));
    fmt::print("{}\n", out.dump(2));
    return;
  }
  for (const KnownOperator& known : shown) {
    if (!options.name.empty())
      fmt::print("{}", page_of(known));
    else
      fmt::print("{:<48} {:<16} {}\n", full_name(known), opsets(known), builtin_names(known));
  }
}

}  // namespace lowtide::tools
