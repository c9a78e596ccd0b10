// SPDX-License-Identifier: Apache-2.0
#include "emit/custom_operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "stream/error.h"
#include "stream/printable.h"
#include "stream/tflite/flexbuffer.h"

namespace lowtide::emit {
namespace {

using Json = nlohmann::ordered_json;
using stream::FlexValue;

// The custom ops of a graph in the order of the ONNX nodes: passes move ops.
std::vector<const core::Op*> custom_ops(const core::Graph& graph) {
  std::vector<const core::Op*> out;
  for (const core::Op& op : graph.ops)
    if (op.kind == core::Kind::kCustom) out.push_back(&op);
  std::stable_sort(out.begin(), out.end(), [](const core::Op* a, const core::Op* b) { return a->origin < b->origin; });
  return out;
}

const core::CustomOperator& described(const core::Op& op) {
  return *std::get<core::CustomOptions>(op.options).described;
}

std::string hexadecimal(const std::vector<uint8_t>& bytes) { return fmt::format("{:02x}", fmt::join(bytes, "")); }

Json number_value(double number) { return std::isfinite(number) ? Json(number) : Json(fmt::format("{}", number)); }

Json json_of(const FlexValue& from) {
  struct Visitor {
    Json operator()(std::monostate) const { return nullptr; }
    Json operator()(bool value) const { return value; }
    Json operator()(int64_t value) const { return value; }
    Json operator()(uint64_t value) const { return value; }
    Json operator()(double value) const { return number_value(value); }
    Json operator()(const std::string& value) const { return value; }
    Json operator()(const FlexValue::Blob& blob) const { return hexadecimal(blob.bytes); }
    Json operator()(const FlexValue::List& list) const {
      Json out = Json::array();
      for (const FlexValue& value : list) out.push_back(json_of(value));
      return out;
    }
    Json operator()(const FlexValue::Map& map) const {
      Json out = Json::object();
      for (const auto& [key, value] : map) out[key] = json_of(value);
      return out;
    }
  };
  return std::visit(Visitor(), from.value);
}

constexpr size_t kShownItems = 16;

std::string text_of(const FlexValue& from) {
  struct Visitor {
    std::string operator()(std::monostate) const { return "null"; }
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(int64_t value) const { return std::to_string(value); }
    std::string operator()(uint64_t value) const { return std::to_string(value); }
    std::string operator()(double value) const {
      // ONNX's floats are written in 32 bits.
      const auto narrow = static_cast<float>(value);
      return static_cast<double>(narrow) == value ? fmt::format("{}", narrow) : fmt::format("{}", value);
    }
    std::string operator()(const std::string& value) const { return fmt::format("\"{}\"", value); }
    std::string operator()(const FlexValue::Blob& blob) const { return fmt::format("{} bytes", blob.bytes.size()); }
    std::string operator()(const FlexValue::List& list) const {
      std::vector<std::string> parts;
      for (size_t i = 0; i < std::min(list.size(), kShownItems); ++i) parts.push_back(text_of(list[i]));
      if (list.size() > parts.size()) parts.push_back(fmt::format("and {} more", list.size() - parts.size()));
      return fmt::format("[{}]", fmt::join(parts, ", "));
    }
    std::string operator()(const FlexValue::Map& map) const {
      std::vector<std::string> parts;
      for (const auto& [key, value] : map) parts.push_back(fmt::format("{}: {}", key, text_of(value)));
      return fmt::format("{{{}}}", fmt::join(parts, ", "));
    }
  };
  return std::visit(Visitor(), from.value);
}

// Options that an application wrote itself need not be a flexbuffer.
struct Options {
  FlexValue::Map attributes;
  std::string problem;  // why there are none; may be empty
};
Options attributes_of(const CustomUse& use) {
  if (use.option_bytes == 0) return {};
  if (use.options.size() < use.option_bytes)
    return {{}, fmt::format("{} bytes of options were not read", use.option_bytes)};
  try {
    FlexValue value = stream::read_flexbuffer(use.options);
    if (auto* map = std::get_if<FlexValue::Map>(&value.value)) return {std::move(*map), {}};
    return {{{"", std::move(value)}}, {}};
  } catch (const stream::Error& error) {
    return {{}, fmt::format("{} bytes of options: {}", use.option_bytes, error.text())};
  }
}

std::string indented_line(size_t columns, const std::string& text) {
  return std::string(columns, ' ') + stream::printable(text) + "\n";
}

}  // namespace

CustomNames::CustomNames(const core::Model& model) {
  std::map<std::string, std::vector<size_t>> of_name;
  for (const auto& graph : model.graphs)
    for (const core::Op* op : custom_ops(*graph)) {
      const core::CustomOperator& custom = described(*op);
      const auto [at, is_new] = index_.try_emplace({custom.name, custom.attributes}, uses_.size());
      if (is_new) {
        of_name[custom.name].push_back(uses_.size());
        uses_.push_back({custom.name, custom.version, custom.attributes, custom.attributes.size(), {}});
      }
      uses_[at->second].nodes.push_back(graph->origins[op->origin]);
    }
  std::set<std::string> names;
  for (const auto& [name, uses] : of_name) {
    size_t number = 0;
    for (const size_t use : uses) {
      if (uses.size() > 1) uses_[use].name += fmt::format("#{}", ++number);
      if (!names.insert(uses_[use].name).second)
        throw stream::Unsupported(fmt::format("two custom operators would have the name '{}'", uses_[use].name),
                                  "give one of them another name in the mapping of --custom-ops-map",
                                  {.node = uses_[use].nodes[0]});
    }
  }
}

const std::string& CustomNames::of(const core::CustomOperator& custom) const {
  return uses_[index_.at({custom.name, custom.attributes})].name;
}

std::vector<CustomUse> custom_uses(const tfl::Model& model) {
  std::vector<CustomUse> out;
  // Options that several operators share are read once, and compared once.
  std::map<std::tuple<std::string, int32_t, const void*, uint64_t>, size_t> shared;
  std::map<std::tuple<std::string, int32_t, std::vector<uint8_t>, uint64_t>, size_t> index;
  for (const tfl::Subgraph& graph : model.subgraphs)
    for (const tfl::Operator& op : graph.operators) {
      if (op.code != static_cast<int32_t>(core::Kind::kCustom)) continue;
      const auto [known, is_other] =
          shared.try_emplace({op.name, op.version, op.custom_options.get(), op.custom_bytes}, 0);
      if (is_other) {
        CustomUse use{
            op.name, op.version, op.custom_options ? *op.custom_options : std::vector<uint8_t>(), op.custom_bytes, {}};
        const auto [at, is_new] = index.try_emplace({use.name, use.version, use.options, use.option_bytes}, out.size());
        if (is_new) out.push_back(std::move(use));
        known->second = at->second;
      }
      out[known->second].nodes.push_back(op.outputs.empty() ? ""
                                                            : graph.tensors[static_cast<size_t>(op.outputs[0])].name);
    }
  return out;
}

std::string custom_text(const std::vector<CustomUse>& uses) {
  std::string out;
  for (const CustomUse& use : uses) {
    const Options options = attributes_of(use);
    out += indented_line(2, fmt::format("{} version {}", use.name, use.version));
    if (!options.problem.empty()) out += indented_line(4, options.problem);
    for (const auto& [key, value] : options.attributes)
      out += indented_line(4, fmt::format("{} = {}", key, text_of(value)));
    const size_t shown = std::min(use.nodes.size(), kShownItems);
    std::string nodes =
        fmt::format("{}", fmt::join(use.nodes.begin(), use.nodes.begin() + static_cast<long>(shown), ", "));
    if (shown < use.nodes.size()) nodes += fmt::format(" and {} more", use.nodes.size() - shown);
    out += indented_line(4, fmt::format("{} node{}: {}", use.nodes.size(), use.nodes.size() == 1 ? "" : "s", nodes));
  }
  return out;
}

Json custom_values(const std::vector<CustomUse>& uses) {
  Json out = Json::array();
  for (const CustomUse& use : uses) {
    const Options options = attributes_of(use);
    Json attributes = Json::object();
    for (const auto& [key, value] : options.attributes) attributes[key] = json_of(value);
    out.push_back({{"name", use.name},
                   {"version", use.version},
                   {"attributes", std::move(attributes)},
                   {"problem", options.problem},
                   {"nodes", use.nodes}});
  }
  return out;
}

}  // namespace lowtide::emit
