// SPDX-License-Identifier: Apache-2.0
// The passes of the way back, in their order, each with the reason for its place.
#include "layout/raise_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "layout/core/graph.h"
#include "layout/drop_unused_values.h"
#include "layout/merge_equal.h"
#include "layout/raise/channels_first.h"
#include "layout/raise/import_tflite.h"
#include "layout/raise/joined_pads.h"
#include "layout/raise/raised_operator.h"
#include "layout/raise/raising.h"
#include "layout/raise/refused_by_litert.h"
#include "layout/raise/write_ops.h"
#include "layout/settle/settle_layouts.h"
#include "stream/printable.h"

namespace lowtide::layout {
namespace {

using stream::Code;
using stream::Error;
using stream::Unsupported;

// QuantizeLinear takes integers of 4 and 16 bits since opset 21.
constexpr int64_t kOpsetOfWideIntegers = 21;

// Floats of 8 bits came with opset 19, integers of 2 bits with 25.
constexpr int64_t kOpsetOfFloats8 = 19, kOpsetOfInt2 = 25;

// Up to 17 all reductions but ReduceSum have their axes as an attribute.
constexpr int64_t kOpsetOfComputedAxes = 18;

// BitwiseXor, BitwiseAnd, and extremes in ScatterElements.
constexpr int64_t kOpsetOfBitsAndScatteredExtremes = 18;
bool needs_bits_or_scattered_extremes(core::Kind kind) {
  return kind == core::Kind::kBitwiseXor || kind == core::Kind::kStablehloAnd ||
         kind == core::Kind::kUnsortedSegmentMax || kind == core::Kind::kUnsortedSegmentMin;
}

// That of the element type.
int64_t opset_of_type(core::DType dtype) {
  switch (dtype) {
    case core::DType::kInt2:
    case core::DType::kUint2:
      return kOpsetOfInt2;
    case core::DType::kInt4:
    case core::DType::kUint4:
      return kOpsetOfWideIntegers;
    case core::DType::kFloat8E4M3FN:
    case core::DType::kFloat8E5M2:
      return kOpsetOfFloats8;
    default:
      return kLeastRaisedOpset;
  }
}

// BitCast: the bits of floats as integers, and the other way round.
constexpr int64_t kOpsetOfBitCast = 26;
bool needs_bit_cast(const core::Graph& graph, const core::Op& op) {
  if (op.kind != core::Kind::kBitcast) return false;
  const core::DType from = graph.at(op.inputs[0]).dtype, to = graph.at(op.outputs[0]).dtype;
  return from != to && !(stream::is_integer(from) && stream::is_integer(to));
}

// IR versions by the opsets that came with them. Source: onnx/docs/Versioning.md.
int64_t ir_version_of(int64_t opset) {
  constexpr int64_t kOpsetOfVersion10 = 22, kVersionOfInt2 = 13;  // one more with each opset between the two
  if (opset <= 18) return 8;
  if (opset <= 20) return 9;
  return opset <= kOpsetOfVersion10 ? 10 : std::min(opset - kOpsetOfVersion10 + 10, kVersionOfInt2);
}

int64_t least_opset(const core::Model& model) {
  int64_t out = kLeastRaisedOpset;
  for (const auto& graph : model.graphs)
    for (const core::Op& op : graph->ops) {
      if (const auto* custom = std::get_if<core::CustomOptions>(&op.options))
        out = std::max(out, static_cast<const RaisedOperator&>(*custom->described).least_opset);
      const bool reduces = std::holds_alternative<core::ReduceOptions>(op.options) && op.kind != core::Kind::kSum;
      if (reduces && !graph->ints(op.inputs[1])) out = std::max(out, kOpsetOfComputedAxes);
      if (needs_bits_or_scattered_extremes(op.kind)) out = std::max(out, kOpsetOfBitsAndScatteredExtremes);
      if (needs_bit_cast(*graph, op)) out = std::max(out, kOpsetOfBitCast);
    }
  for (const auto& graph : model.graphs)
    for (const core::Value& value : graph->values) {
      out = std::max(out, opset_of_type(value.dtype));
      if (!value.quantization) continue;
      if (stream::bits(value.dtype) != 8) out = std::max(out, kOpsetOfWideIntegers);
    }
  return out;
}

int64_t chosen_opset(const core::Model& model, const RaiseOptions& options) {
  const int64_t least = least_opset(model);
  if (!options.opset) return least;
  if (*options.opset < kLeastRaisedOpset || *options.opset > kMostRaisedOpset)
    throw Error(Code::kUsage,
                fmt::format("--opset {}: from {} to {}", *options.opset, kLeastRaisedOpset, kMostRaisedOpset));
  if (*options.opset < least)
    throw Unsupported(
        fmt::format(
            "the model has integers of 2 or 4 bits or floats of 8 bits, quantizes those of 16 bits or in blocks, "
            "reduces along axes that "
            "it computes, or has BITCAST, BITWISE_XOR, UNSORTED_SEGMENT_MAX or UNSORTED_SEGMENT_MIN, which opset {} "
            "does not have",
            *options.opset),
        fmt::format("use --opset {}", least));
  return *options.opset;
}

void write_nodes(core::Model& from, int64_t opset, RaiseResult& result) {
  onnx::Graph& out = result.model.graph;
  RaisedModel raised{.from = from, .main = out, .refused = result.refused, .opset = opset};
  for (const auto& each : from.graphs) raised.joined_pads[each.get()] = join_pads(*each);
  OnnxGraph target(raised);
  const core::Graph& graph = target.graph;
  write_ops(target);
  for (const std::string& domain : raised.domains) result.model.opsets[domain] = 1;
  result.model.functions = std::move(raised.functions);
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

// An initializer of an input's name is its default.
void add_defaults(const std::vector<RaisedState>& states, onnx::Graph& out) {
  for (const RaisedState& state : states) {
    onnx::Tensor tensor;
    tensor.name = out.inputs[state.input].name;
    tensor.dtype = state.initial->dtype;
    tensor.dims = state.initial->dims;
    tensor.data = state.initial;
    out.initializers.push_back(std::move(tensor));
  }
}

uint64_t count_transposes(const onnx::Graph& graph) {
  uint64_t out = 0;
  for (const onnx::Node& node : graph.nodes) {
    out += node.op_type == "Transpose" ? 1 : 0;
    for (const onnx::Attribute& attribute : node.attributes)
      for (const auto& inner : attribute.graphs) out += count_transposes(*inner);
  }
  return out;
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
  ImportedTflite imported = import_tflite(model, core_model, options.file, result.refused);
  result.notes = options.file.kept.notes(model);
  result.notes.insert(result.notes.end(), model.notes.begin(), model.notes.end());
  for (std::string& note : imported.notes) result.notes.push_back(std::move(note));
  for (std::string& note : refused_by_litert(model)) result.notes.push_back(std::move(note));
  core::Graph& graph = *core_model.graphs[0];
  for (const auto& one : core_model.graphs) one->tidy();
  const int64_t opset = chosen_opset(core_model, options);
  // Image ops get ONNX's axis order, each between transposes of its own, and then every value the order that moves the
  // fewest bytes.
  pin_channels_first(graph, options.layouts, imported.states);
  for (const auto& one : core_model.graphs) {
    to_channels_first(*one);
    if (result.refused.empty()) settle_layouts(*one);
    merge_transposes(*one);
    one->tidy();
    // Weights that several convolutions share are in ONNX's order once.
    merge_equal(*one);
    drop_unused_values(*one);
  }
  write_nodes(core_model, opset, result);
  add_defaults(imported.states, result.model.graph);
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
  result.transposes = count_transposes(result.model.graph);
  return result;
}

}  // namespace lowtide::layout
