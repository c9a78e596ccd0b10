// SPDX-License-Identifier: Apache-2.0
// The passes of the way back, in their order, each with the reason for its place.
#include "layout/raise_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "layout/core/graph.h"
#include "layout/drop_unused_values.h"
#include "layout/raise/channels_first.h"
#include "layout/raise/import_tflite.h"
#include "layout/raise/raising.h"
#include "layout/raise/table.h"
#include "layout/settle/settle_layouts.h"
#include "stream/printable.h"

namespace lowtide::layout {
namespace {

using stream::Code;
using stream::Error;
using stream::Unsupported;

// QuantizeLinear takes integers of 4 and 16 bits since opset 21.
constexpr int64_t kOpsetOfWideIntegers = 21;

// IR versions by the opsets that came with them. Source: onnx/docs/Versioning.md.
int64_t ir_version_of(int64_t opset) { return opset <= 18 ? 8 : opset <= 20 ? 9 : 10; }

int64_t least_opset(const core::Graph& graph) {
  int64_t out = kLeastRaisedOpset;
  for (const core::Value& value : graph.values) {
    if (!value.quantization) continue;
    if (value.dtype == core::DType::kInt2)
      throw Unsupported("integers of 2 bits are quantized, which no opset up to 21 has");
    if (stream::bits(value.dtype) != 8) out = kOpsetOfWideIntegers;
  }
  return out;
}

int64_t chosen_opset(const core::Graph& graph, const RaiseOptions& options) {
  const int64_t least = least_opset(graph);
  if (!options.opset) return least;
  if (*options.opset < kLeastRaisedOpset || *options.opset > kMostRaisedOpset)
    throw Error(Code::kUsage,
                fmt::format("--opset {}: from {} to {}", *options.opset, kLeastRaisedOpset, kMostRaisedOpset));
  if (*options.opset < least)
    throw Unsupported(
        fmt::format("the model quantizes integers of 4 or 16 bits, which opset {} does not have", *options.opset),
        fmt::format("use --opset {}", least));
  return *options.opset;
}

onnx::ValueInfo port_of(const core::Graph& graph, core::ValueId id, const std::string& name) {
  const core::Value& value = graph.at(id);
  onnx::ValueInfo out;
  out.name = name;
  out.type = onnx::ValueInfo::Type::kTensor;
  out.dtype = value.dtype;
  out.has_shape = true;
  for (core::Dim dim : value.shape) {
    onnx::Dimension made;
    if (stream::is_static(dim))
      made.value = dim;
    else
      made.symbol = graph.symbols.to_string(dim);
    out.dims.push_back(std::move(made));
  }
  return out;
}

// What is refused is told with the operator's place in the file.
void add_refused(const core::Graph& graph, const core::Op& op, const Unsupported& reason, RaiseResult& result) {
  Unsupported refused = reason;
  const auto* image = std::get_if<core::ChannelsFirstOptions>(&op.options);
  const auto kind = image ? static_cast<core::Kind>(image->code) : op.kind;
  refused.add_place({.node = graph.origins[op.origin], .op = std::string(core::kind_name(kind))});
  result.refused.push_back(std::move(refused));
}

void write_nodes(core::Graph& graph, int64_t opset, RaiseResult& result) {
  onnx::Graph& out = result.model.graph;
  OnnxGraph target(graph, out, opset);
  for (const core::Op& op : graph.ops) {
    Raising raising(target, op);
    try {
      raise_row(raising.kind())->raise(raising);
    } catch (const Unsupported& error) {
      add_refused(graph, op, error, result);
    }
  }
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    out.inputs.push_back(port_of(graph, graph.inputs[i], graph.input_names[i]));
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    // An output may be an input, a constant, or an output before it.
    const std::string stored = target.stored(graph.outputs[i]);
    if (stored != graph.output_names[i]) {
      onnx::Node copy;
      copy.name = target.fresh("Identity");
      copy.op_type = "Identity";
      copy.inputs = {stored};
      copy.outputs = {graph.output_names[i]};
      out.nodes.push_back(std::move(copy));
    }
    out.outputs.push_back(port_of(graph, graph.outputs[i], graph.output_names[i]));
  }
}

// The files that constants are read from.
void add_sources(const stream::RecipeRef& recipe, std::vector<std::shared_ptr<stream::Source>>& sources) {
  if (const auto* stored = std::get_if<stream::step::Stored>(&recipe->step))
    if (std::find(sources.begin(), sources.end(), stored->source) == sources.end()) sources.push_back(stored->source);
  for (const stream::RecipeRef& from : recipe->from) add_sources(from, sources);
}

}  // namespace

RaiseResult raise_model(const tfl::Model& model, const RaiseOptions& options, stream::Budget& budget) {
  RaiseResult result;
  core::Model core_model(budget);
  // Operators become core ops as they stand.
  import_tflite(model, core_model, result.refused);
  core::Graph& graph = *core_model.graphs[0];
  graph.tidy();
  const int64_t opset = chosen_opset(graph, options);
  // Image ops get ONNX's axis order, each between transposes of its own, and then every value the order that moves the
  // fewest bytes.
  pin_channels_first(graph, options.layouts);
  to_channels_first(graph);
  if (result.refused.empty()) settle_layouts(graph);
  merge_transposes(graph);
  graph.tidy();
  drop_unused_values(graph);
  write_nodes(graph, opset, result);
  // In the order of the file.
  std::stable_sort(result.refused.begin(), result.refused.end(), [](const Unsupported& a, const Unsupported& b) {
    return std::strtoull(a.where().node.c_str(), nullptr, 10) < std::strtoull(b.where().node.c_str(), nullptr, 10);
  });
  result.model.graph.name = stream::printable(graph.name);  // ONNX's texts are UTF-8
  result.model.ir_version = ir_version_of(opset);
  result.model.opsets[""] = opset;
  result.model.producer_name = "lowtide";
  result.model.doc_string = stream::printable(model.description);
  result.model.file_bytes = model.file_bytes;
  for (const tfl::Subgraph& subgraph : model.subgraphs) result.operators += subgraph.operators.size();
  for (const onnx::Tensor& tensor : result.model.graph.initializers) add_sources(tensor.data, result.model.sources);
  for (const onnx::Node& node : result.model.graph.nodes) result.transposes += node.op_type == "Transpose" ? 1 : 0;
  return result;
}

}  // namespace lowtide::layout
