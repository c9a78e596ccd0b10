// SPDX-License-Identifier: Apache-2.0
// What the functions of the table (table.h) write an op with: its inputs as names of ONNX tensors, nodes, its outputs.
//
// Integers that stand for real numbers are seen in two ways. real() gives the numbers, through a DequantizeLinear, and
// give() takes numbers and quantizes them; data() and give_data() leave the integers as they are where an op only moves
// elements between tensors of one scale. Nothing stands between a DequantizeLinear and the node that it belongs to, so
// that ONNX Runtime finds the groups that it has integer kernels for.
#pragma once

#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "layout/core/graph.h"
#include "layout/raise/joined_pads.h"
#include "layout/raise/unique_names.h"
#include "stream/error.h"
#include "stream/onnx/model.h"

namespace lowtide::layout {

using core::Activation;
using core::DType;
using core::Kind;
using core::Shape;
using core::Value;
using core::ValueId;

onnx::Attribute attribute(std::string_view name, int64_t value);
onnx::Attribute attribute(std::string_view name, float value);
onnx::Attribute attribute(std::string_view name, std::string_view value);
onnx::Attribute attribute(std::string_view name, std::vector<int64_t> values);

using Names = std::vector<std::string>;
using Attributes = std::vector<onnx::Attribute>;

// The type of a value's numbers, as the nodes of an op read them: f32 for integers with a scale and for bf16, i8 for
// integers of fewer bits.
DType real_type(const Value& value);

// What all graphs of one ONNX model share.
struct RaisedModel {
  core::Model& from;
  onnx::Graph& main;
  std::vector<stream::Unsupported>& refused;
  int64_t opset;
  UniqueNames names = {};              // of all graphs: one sees those of the graphs around it
  std::set<std::string> domains = {};  // of nodes that are not ONNX's own
  size_t fresh = 0;
  size_t called_ops = 0;  // written for ops that run graphs
  std::vector<onnx::Function> functions = {};
  std::map<const core::Graph*, JoinedPads> joined_pads = {};
  std::map<const stream::Recipe*, std::string> large = {};  // constants of all graphs, which are in the main one
};

// Names of ONNX tensors, initializers and nodes of one graph.
class OnnxGraph {
 public:
  // The model's own graph.
  explicit OnnxGraph(RaisedModel& raised);
  // One that an op runs, written to `made`; its inputs are these tensors.
  OnnxGraph(RaisedModel& raised, core::Graph& core_graph, onnx::Graph& made, std::span<const std::string> inputs);

  RaisedModel& model;
  core::Graph& graph;
  onnx::Graph& out;
  const int64_t opset;

  // Before each op: nodes that are there already keep the names of their outputs.
  void begin_op() { kept_ = out.nodes.size(); }

  // The tensor of a value as it is stored; adds the initializer of a constant.
  std::string stored(ValueId id);
  // The tensor of its numbers, of real_type(): dequantized where the value is quantized.
  std::string real(ValueId id);
  std::string fresh(std::string_view hint);
  std::string initializer(stream::RecipeRef data, std::string_view hint);
  std::string node(std::string_view type, Names inputs, Attributes attributes = {});
  Names nodes(std::string_view type, Names inputs, size_t outputs, Attributes attributes = {});
  // The value is the tensor `name`: the last node's output takes its name, or an Identity is added.
  void define(ValueId id, const std::string& name);
  // Numbers of real_type(), as the value is stored.
  std::string as_stored(const std::string& name, const Value& value);
  std::string dequantized(const std::string& name, const core::Quantization& quantization, DType dtype, bool is_bias);
  std::string quantized(const std::string& name, const core::Quantization& quantization, DType dtype);

 private:
  struct Parameters {
    std::string scale, zero_point;
  };
  Parameters parameters(const core::Quantization& quantization, DType dtype, bool has_zero_point);
  std::string unique(const std::string& name);

  std::vector<std::string> stored_, real_;  // by value; empty: not made yet
  std::map<std::pair<std::vector<float>, std::pair<std::vector<int64_t>, int>>, Parameters> parameters_;
  size_t kept_ = 0;  // how many nodes have outputs that other ops read by their names
};

// One op that is written.
class Raising {
 public:
  Raising(OnnxGraph& target, const core::Op& written) : onnx(target), graph(target.graph), op(written) {}
  OnnxGraph& onnx;
  core::Graph& graph;
  const core::Op& op;

  static constexpr int64_t kToTheEnd = std::numeric_limits<int64_t>::max();  // as an end of Slice

  // The builtin, for an image op in ONNX's axis order too.
  Kind kind() const {
    const auto* image = std::get_if<core::ChannelsFirstOptions>(&op.options);
    return image ? static_cast<Kind>(image->code) : op.kind;
  }
  bool has(size_t i) const { return core::has_input(op, i); }
  const Value& in(size_t i) const { return graph.at(op.inputs[i]); }
  const Value& out(size_t i = 0) const { return graph.at(op.outputs[i]); }
  template <typename T>
  const T& options() const {
    if (const auto* image = std::get_if<core::ChannelsFirstOptions>(&op.options))
      if constexpr (std::is_constructible_v<decltype(image->options), T>) return std::get<T>(image->options);
    return std::get<T>(op.options);
  }
  std::optional<std::vector<int64_t>> ints(size_t i) const { return graph.ints(op.inputs[i]); }
  // The pads that the op got from a PAD; null for none.
  const std::vector<int64_t>* joined_pads() const;
  // Refuses an input that is computed at run time.
  std::vector<int64_t> need_ints(size_t i, std::string_view what) const;
  // Refuses a dimension that is known at run time only.
  int64_t need_static(core::Dim dim, std::string_view what) const;

  // Of integers without a scale that ONNX Runtime moves and compares only when they are wider: as i32.
  bool is_widened(size_t i) const {
    const Value& value = in(i);
    return !value.quantization && (value.dtype == DType::kInt16 || value.dtype == DType::kUint16);
  }
  // Refuses integers that an operator computes with by a scale, where they have none. Kernels that do not look at the
  // scale of their data read its integers by that of the result.
  std::string real(size_t i);
  std::string stored(size_t i) { return onnx.stored(op.inputs[i]); }
  // As data that is only moved: the stored elements where all listed inputs and outputs have one scale, in a wider type
  // where ONNX Runtime does not move theirs.
  std::string data(size_t i);
  bool moves_stored() const;
  // Whether the result's integers of 8 bits stand for numbers. Runtimes look for groups of DequantizeLinear, an op and
  // QuantizeLinear, those that only move elements too, and compute them on the integers.
  bool is_quantized() const {
    return out().quantization && out().quantization->scale.size() == 1 && stream::bits(out().dtype) == 8;
  }
  // Of two inputs: scales and zero points are equal, or neither has any.
  bool same_scale(size_t a, size_t b) const;
  // For nodes that have fewer element types than ONNX gives them: `types` are those that ONNX Runtime takes.
  bool moves_stored(std::span<const DType> types) const;

  // An input of indices or shapes as i64, of its own rank.
  std::string int64_input(size_t i);
  std::string int64_list(std::span<const int64_t> values);
  std::string int64_list(std::initializer_list<int64_t> values) {
    return int64_list(std::span(values.begin(), values.size()));
  }
  std::string scalar(double value, DType dtype);

  std::string node(std::string_view type, Names inputs, Attributes attributes = {}) {
    return onnx.node(type, std::move(inputs), std::move(attributes));
  }
  // A Reshape to this shape. Where several dimensions are unknown, to the contents of the input `computed_by`, or to
  // dimensions that inputs have too.
  std::string reshaped(const std::string& name, const Shape& shape, std::optional<size_t> computed_by = std::nullopt);
  std::string cast(const std::string& name, DType to);
  // Of tensors of `dtype`. Not Max, Min or Clip for i64: ONNX Runtime's compare the low halves as signed numbers, so
  // that 2^31 counts as less than 31.
  std::string larger(const std::string& a, const std::string& b, DType dtype);
  std::string smaller(const std::string& a, const std::string& b, DType dtype);

  // An output as numbers, as stored, and as what data() gave.
  void give(const std::string& name, size_t output = 0);
  void give_stored(const std::string& name, size_t output = 0) { onnx.define(op.outputs[output], name); }
  void give_data(const std::string& name, size_t output = 0);
  // The data, of a scalar: ONNX Runtime's kernels refuse empty lists of its axes.
  void give_copy() { give_data(node("Identity", {data(0)})); }
  // With the activation of TFLite's kernel. One that the output's integers cannot show is left out.
  void give_activated(const std::string& name, Activation activation);

  // The same, and the result is then reshaped from [rows, units] to its own shape.
  void give_activated_as(const std::string& name, Activation activation, int64_t units);

  [[noreturn]] void unsupported(std::string reason, std::string hint = {}) const;

 private:
  // A list of one number: the extent of an axis of an input, or a multiple of one. Empty: no input has it.
  std::string extent_of_input(core::Dim dim);
  std::string multiple_of_extent(core::Dim dim);
  std::string extent(ValueId id, int64_t axis);
  Names extents_of_inputs(const Shape& shape);
  std::string reshape_target(const Shape& shape, std::optional<size_t> computed_by);
  bool reads_by_result(size_t i) const;
  std::string real_by_result(size_t i);
  bool clamps_anyway(double low, double high) const;
  std::string activated(const std::string& name, Activation activation);
};

// ONNX's number of an element type. Throws Unsupported where it has none.
int64_t onnx_type(DType dtype);

}  // namespace lowtide::layout
