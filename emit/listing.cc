// SPDX-License-Identifier: Apache-2.0
#include "emit/listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <type_traits>

#include "emit/json_text.h"
#include "emit/report.h"
#include "stream/printable.h"

namespace lowtide::emit {
namespace {

using Json = nlohmann::ordered_json;

// Names come from files.
std::string line(const std::string& text) { return stream::printable(text) + "\n"; }

std::string typed(const ListedTensor& tensor) {
  return tensor.dtype.empty() ? "?" : fmt::format("{}[{}]", tensor.dtype, joined(tensor.shape));
}

std::map<std::string, size_t> totals(const Listing& listing) {
  std::map<std::string, size_t> out;
  for (const ListedGraph& graph : listing.graphs)
    for (const ListedOp& op : graph.ops) ++out[op.op];
  return out;
}

uint64_t constant_bytes(const ListedGraph& graph) {
  uint64_t bytes = 0;
  for (const ListedTensor& tensor : graph.constants) bytes += tensor.bytes;
  return bytes;
}

std::string op_line(const ListedOp& op) {
  std::string out = "  ";
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    out += i ? ", " : "";
    out += op.outputs[i].empty() ? "-" : op.outputs[i];
    if (i < op.results.size()) out += " " + typed(op.results[i]);
  }
  out += fmt::format(" = {}(", op.op);
  for (size_t i = 0; i < op.inputs.size(); ++i)
    out += (i ? ", " : "") + (op.inputs[i].empty() ? std::string("-") : op.inputs[i]);
  out += ")";
  for (const auto& [name, value] : op.attributes) out += fmt::format(" {}={}", name, value.text);
  return line(out + (op.name.empty() ? "" : fmt::format("  # {}", op.name)));
}

std::string graph_text(const ListedGraph& graph) {
  std::string out = line(fmt::format("graph '{}'", graph.name));
  for (const ListedTensor& tensor : graph.inputs) out += line(fmt::format("  input {} {}", tensor.name, typed(tensor)));
  for (const ListedTensor& tensor : graph.outputs)
    out += line(fmt::format("  output {} {}", tensor.name, typed(tensor)));
  for (const ListedTensor& tensor : graph.constants)
    out += line(fmt::format("  constant {} {} {} bytes", tensor.name, typed(tensor), tensor.bytes));
  for (const ListedOp& op : graph.ops) out += op_line(op);
  return out;
}

Json tensors_json(const std::vector<ListedTensor>& tensors, bool constants) {
  Json out = Json::array();
  for (const ListedTensor& tensor : tensors) {
    Json shape = Json::array();
    for (const ListedExtent& extent : tensor.shape)
      shape.push_back(extent.is_number ? Json::parse(extent.text) : Json(extent.text));
    Json item = {{"name", tensor.name}, {"dtype", tensor.dtype}, {"shape", shape}};
    if (constants) item["bytes"] = tensor.bytes;
    out.push_back(std::move(item));
  }
  return out;
}

// Numbers as JSON has them: NaN and infinities are text.
Json number_json(double number) { return std::isfinite(number) ? Json(number) : Json(fmt::format("{}", number)); }

Json plain_json(const ListedValue& value) {
  return std::visit(
      [&](const auto& plain) -> Json {
        using Plain = std::decay_t<decltype(plain)>;
        if constexpr (std::is_same_v<Plain, std::monostate>) {
          return value.text;
        } else if constexpr (std::is_same_v<Plain, double>) {
          return number_json(plain);
        } else if constexpr (std::is_same_v<Plain, std::vector<double>>) {
          Json out = Json::array();
          for (const double number : plain) out.push_back(number_json(number));
          return out;
        } else {
          return plain;
        }
      },
      value.plain);
}

Json graph_json(const ListedGraph& graph) {
  Json ops = Json::array();
  for (const ListedOp& op : graph.ops) {
    Json attributes = Json::object();
    for (const auto& [name, value] : op.attributes) attributes[name] = plain_json(value);
    ops.push_back({{"op", op.op},
                   {"name", op.name},
                   {"inputs", op.inputs},
                   {"outputs", op.outputs},
                   {"results", tensors_json(op.results, false)},
                   {"attributes", attributes}});
  }
  return {{"name", graph.name},
          {"inputs", tensors_json(graph.inputs, false)},
          {"outputs", tensors_json(graph.outputs, false)},
          {"constants", tensors_json(graph.constants, true)},
          {"operators", ops}};
}

}  // namespace

std::string joined(const std::vector<ListedExtent>& shape) {
  std::string out;
  for (const ListedExtent& extent : shape) out += (out.empty() ? "" : ",") + extent.text;
  return out;
}

std::string listing_text(const Listing& listing) {
  std::string out = listing.format + "\n";
  for (const auto& [name, value] : listing.facts) out += line(fmt::format("  {}: {}", name, value.text));
  uint64_t bytes = 0;
  size_t constants = 0;
  for (const ListedGraph& graph : listing.graphs) {
    out += graph_text(graph);
    bytes += constant_bytes(graph);
    constants += graph.constants.size();
  }
  out += fmt::format("constants: {}, {} bytes ({})\noperators:\n", constants, bytes, file_size(bytes));
  for (const auto& [op, count] : totals(listing)) out += line(fmt::format("{:8} {}", count, op));
  return out;
}

std::string listing_json(const Listing& listing) {
  Json facts = Json::object(), graphs = Json::array();
  for (const auto& [name, value] : listing.facts) facts[name] = plain_json(value);
  for (const ListedGraph& graph : listing.graphs) graphs.push_back(graph_json(graph));
  Json json = {{"format", listing.format}, {"facts", facts}, {"graphs", graphs}, {"totals", totals(listing)}};
  return json_text(json);
}

}  // namespace lowtide::emit
