// SPDX-License-Identifier: Apache-2.0
// What the lowering function of an ONNX operator works with: its node, with typed inputs and attributes. There is one
// function for each operator:
//
//     void lower_leaky_relu(Lowering& lo) {
//       float alpha = lo.attr_f("alpha", 0.01f);
//       lo.output(0, lo.b.leaky_relu(lo.input(0), alpha));
//     }
//
// ONNX's axis order is kept: an NCHW convolution becomes transpose, CONV_2D, transpose, and settle_layouts removes the
// transposes that are not needed. Every attribute must be read, or ignored explicitly: an attribute that is not read is
// an error, so that nothing is ignored silently.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "layout/core/builder.h"
#include "layout/lower/list_joins.h"
#include "stream/error.h"
#include "stream/onnx/model.h"

namespace lowtide::core {
class SubgraphBuilder;
}

namespace lowtide::layout {

using core::Activation;
using core::Builder;
using core::Dim;
using core::DType;
using core::Kind;
using core::Padding;
using core::Perm;
using core::Shape;
using core::Val;

// What a node needs from the graph around it; lower_graph.cc implements it.
class Surroundings {
 public:
  virtual ~Surroundings() = default;
  // Lowers a subgraph (a branch of If, the body of Loop) in place, its inputs bound to `inputs`. It can use the values
  // of the graphs around it by name. Returns the subgraph's outputs.
  virtual std::vector<Val> lower_inline(const onnx::Graph& graph, std::span<const Val> inputs) = 0;
  // The same into the graph of a branch or a loop's body (subgraphs.h); `inputs` are values of the subgraph.
  virtual std::vector<Val> lower_into(core::SubgraphBuilder& subgraph, const onnx::Graph& graph,
                                      std::span<const Val> inputs) = 0;
  virtual core::Model& model() = 0;  // takes the graphs of IF and WHILE
  // f16 or bf16 where the value of that name is that in ONNX, and f32 here; else kUndefined.
  virtual DType half_of(const std::string& value) const = 0;
  // How the list of that name is probably joined in the end.
  virtual std::optional<ListJoin> join_of(const std::string& list) = 0;
  // The nodes of subgraphs that were lowered so far, each time counted.
  virtual int64_t inner_nodes() const = 0;
};

class Lowering {
 public:
  Lowering(Builder& builder, const onnx::Node& onnx_node, int64_t version, std::vector<Val> inputs,
           Surroundings& surroundings);

  Builder& b;
  const onnx::Node& node;
  Surroundings& around;

  int64_t opset() const { return opset_; }  // of the node's domain

  // ---- inputs ----
  size_t input_count() const { return inputs_.size(); }
  bool has_input(size_t i) const { return i < inputs_.size() && inputs_[i]; }
  Val input(size_t i) const;  // malformed when absent
  Val optional_input(size_t i) const { return has_input(i) ? inputs_[i] : Val{}; }
  const Shape& shape(Val v) const { return b.shape(v); }
  DType dtype(Val v) const { return b.dtype(v); }
  int rank(Val v) const { return b.rank(v); }
  // The type of an input in ONNX: halves are f32 here (docs/decisions/half-precision.md).
  DType onnx_dtype(size_t i) const;
  // Known elements of a small integer input, symbols allowed; nullopt when they are known only at run time. These and
  // the functions above throw core::UnknownType for a value whose type is not known.
  std::optional<std::vector<Dim>> dims(Val v) const;
  std::optional<std::vector<int64_t>> ints(Val v) const;
  std::optional<std::vector<double>> numbers(Val v) const;  // any numeric small constant
  // The same, but throw Unsupported with a hint when not known: `what` names the input, e.g. "pads".
  std::vector<Dim> need_dims(Val v, const char* what) const;
  std::vector<int64_t> need_ints(Val v, const char* what) const;
  std::vector<double> need_numbers(Val v, const char* what) const;
  // The size of an axis; throws Unsupported with the hint to give --shape when it is symbolic.
  int64_t need_static(Dim dim, const char* what) const;
  std::vector<int64_t> need_static(const Shape& shape, const char* what) const;
  // Normalised to 0..rank-1; throws kMalformed outside of that.
  int axis(int64_t axis, int rank) const;
  // Normalised, in the same order; throws kMalformed for duplicates.
  std::vector<int> axes(const std::vector<int64_t>& axes, int rank) const;
  // The same for operators that take a set of axes, where ONNX Runtime lets one be listed again: each counts once.
  std::vector<int> axis_set(const std::vector<int64_t>& axes, int rank) const;

  // ---- attributes; throw kMalformed for another type ----
  bool has_attr(std::string_view name) const { return node.find(name) != nullptr; }
  int64_t attr_i(std::string_view name, int64_t otherwise);
  int64_t need_attr_i(std::string_view name);
  // A number of heads, groups, ...: it must fit 32 bits, as the extents in a TFLite file do, so that sums of some and
  // products of two do not overflow. The caller checks whether it may be 0 or negative.
  int64_t attr_count(std::string_view name, int64_t otherwise);
  int64_t need_attr_count(std::string_view name);
  float attr_f(std::string_view name, float otherwise);
  float need_attr_f(std::string_view name);
  std::string attr_s(std::string_view name, std::string otherwise);
  std::optional<std::vector<int64_t>> attr_ints(std::string_view name);
  // Places along axes: a number so far before the first element that it would be a symbol is one that is not.
  std::optional<std::vector<int64_t>> attr_places(std::string_view name);
  std::optional<std::vector<float>> attr_floats(std::string_view name);
  DType attr_dtype(std::string_view name, DType otherwise);  // an integer that names a TensorProto.DataType
  const onnx::Attribute* attr(std::string_view name);        // any type; null when absent
  void ignore_attr(std::string_view name);                   // it has no effect; say why beside the call

  // ---- outputs ----
  size_t output_count() const { return node.outputs.size(); }
  bool wants_output(size_t i) const { return i < node.outputs.size() && !node.outputs[i].empty(); }
  void output(size_t i, Val v);  // ignored when the node does not have this output
  const std::vector<Val>& outputs() const { return outputs_; }

  // ---- refusals ----
  [[noreturn]] void unsupported(std::string reason, std::string hint = {}) const;
  [[noreturn]] void malformed(std::string text) const;
  // Shapes do not fit each other: malformed where they are known; dimensions that are not may fit when the model runs.
  [[noreturn]] void misfit(std::string text) const;

  // After the function: throws Unsupported when an attribute was not read, or an output was not given.
  void finish() const;

 private:
  const onnx::Attribute* typed(std::string_view name, onnx::Attribute::Type type);
  int64_t opset_;
  std::vector<Val> inputs_, outputs_;
  std::set<std::string, std::less<>> read_;
};

using LowerFunction = void (*)(Lowering&);

// A row of the lowering table (lower/table.cc), one for each operator, sorted by domain and name.
struct LowerRow {
  std::string_view domain;  // "" is ai.onnx
  std::string_view op;
  // One letter for each input, the last one for all that follow: f any float of at least 16 bits, i any integer, n
  // either, r and m the same with floats of 8 and 4 bits, q int8 or uint8, b bool, . any. Inputs with a capital letter
  // (F, I, N, M, Q, and * for any) have one type. Wide enough for every opset, and narrow enough that no lowering gets
  // types that it was not written for.
  std::string_view inputs;
  int min_inputs, max_inputs;  // max -1: any number
  int max_outputs;             // -1: any number
  LowerFunction lower;
};
// Null when the operator is unknown.
const LowerRow* find_lowering(const onnx::Node& node);

}  // namespace lowtide::layout
