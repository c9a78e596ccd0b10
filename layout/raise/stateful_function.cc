// SPDX-License-Identifier: Apache-2.0
#include "layout/raise/stateful_function.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "layout/core/stateful_builtin.h"
#include "layout/raise/families.h"
#include "layout/raise/raising.h"
#include "layout/raise/stateful_inputs.h"
#include "layout/raise/write_ops.h"
#include "stream/error.h"
#include "stream/recipe/recipe_reader.h"

namespace lowtide::layout {
namespace {

using CallOperand = StatefulCall::Operand;

const core::StatefulForm& form_of_call(const StatefulCall& call) { return *core::stateful_form(call.op.name); }

// A graph of the op alone. All its inputs are inputs of the graph, so that the body does not depend on weights.
struct GraphOfCall {
  core::Model model;
  core::Graph& graph;
  std::vector<ValueId> inputs;

  GraphOfCall(const StatefulCall& call, stream::Budget& budget)
      : model(budget),
        graph(*model.graphs.emplace_back(std::make_unique<core::Graph>(model.symbols, model.budget))),
        inputs(form_of_call(call).inputs, core::kAbsent) {
    for (const auto& [place, operand] : call.inputs) {
      const std::string name = fmt::format("input_{}", place);
      const ValueId made = graph.add_value(operand.dtype, operand.shape, name);
      graph.at(made).quantization = operand.quantization;
      inputs.at(place) = made;
      graph.inputs.push_back(made);
      graph.input_names.push_back(name);
    }
  }

  void add_op(const StatefulCall& call) {
    const core::StatefulForm& form = form_of_call(call);
    auto described = std::make_shared<StatefulOperator>(call.op);
    described->raise = raise_stateful;
    described->is_call = false;
    core::Op op{.kind = Kind::kCustom, .inputs = inputs, .outputs = {}, .options = {}};
    const auto add_result = [&](const CallOperand& like, const std::optional<core::Quantization>& quantization) {
      const ValueId made = graph.add_value(like.dtype, like.shape);
      graph.at(made).producer = 0;
      graph.at(made).quantization = quantization;
      op.outputs.push_back(made);
      graph.outputs.push_back(made);
      graph.output_names.push_back(fmt::format("output_{}", graph.outputs.size() - 1));
    };
    add_result(call.inputs.at(0), call.result);
    for (size_t i = 0; i < form.states; ++i) {
      const CallOperand& before = call.inputs.at(form.first_state + i);
      add_result(before, before.quantization);
    }
    op.options = core::CustomOptions{std::move(described)};
    graph.add_op(std::move(op));
  }
};

bool has_zeros(const core::Quantization& q) {
  return std::all_of(q.zero_point.begin(), q.zero_point.end(), [](int64_t zero) { return zero == 0; });
}

bool has_zeros_of_i8(const core::Quantization& q) {
  constexpr int64_t kLeast = std::numeric_limits<int8_t>::min(), kMost = std::numeric_limits<int8_t>::max();
  return std::all_of(q.zero_point.begin(), q.zero_point.end(),
                     [](int64_t zero) { return zero >= kLeast && zero <= kMost; });
}

// The plain LSTM with data of 8 bits and a cell of 16, whose kernel reads one scale of each tensor, and of weights and
// cell no zero points.
bool is_integer_form(const StatefulCall& call) {
  if (!call.op.name.ends_with("LSTM")) return false;
  constexpr size_t kWeights = 9, kBiases = 12, kHidden = 18, kCell = 19;
  std::map<size_t, DType> wanted = {{0, DType::kInt8}, {kHidden, DType::kInt8}, {kCell, DType::kInt16}};
  for (size_t i = 1; i < kWeights; ++i) wanted[i] = DType::kInt8;
  for (size_t i = 0; i < 4; ++i) wanted[kBiases + i] = DType::kInt32;
  const auto fits = [&](const auto& one) {
    const auto& [place, operand] = one;
    const auto found = wanted.find(place);
    if (found == wanted.end() || found->second != operand.dtype) return false;
    // The kernel does not look at the scale of a bias, so none is imported.
    if (operand.dtype == DType::kInt32) return !operand.quantization;
    if (!operand.quantization) return false;
    const core::Quantization& q = *operand.quantization;
    const bool may_have_zero = place == 0 || place == kHidden;
    return q.scale.size() == 1 && q.scale[0] > 0 && std::isfinite(q.scale[0]) &&
           (may_have_zero ? has_zeros_of_i8(q) : has_zeros(q));
  };
  return call.inputs.size() == wanted.size() && std::all_of(call.inputs.begin(), call.inputs.end(), fits) &&
         call.result == call.inputs.at(kHidden).quantization;
}

bool is_float_form(const StatefulCall& call) {
  const auto is_float = [](const auto& one) { return one.second.dtype == DType::kFloat32 && !one.second.quantization; };
  return std::all_of(call.inputs.begin(), call.inputs.end(), is_float) && !call.result;
}

onnx::Attribute floats_attribute(std::string_view name, std::vector<float> values) {
  onnx::Attribute out;
  out.name = name;
  out.type = onnx::Attribute::Type::kFloats;
  out.floats = std::move(values);
  return out;
}

bool is_same_tensor(const onnx::Tensor& a, const onnx::Tensor& b, stream::Budget& budget) {
  if (a.dtype != b.dtype || a.dims != b.dims || !a.data || !b.data) return false;
  if (!stream::is_small(*a.data) || !stream::is_small(*b.data)) return false;
  return stream::evaluate(a.data, budget) == stream::evaluate(b.data, budget);
}

bool is_same_port(const onnx::ValueInfo& a, const onnx::ValueInfo& b) {
  const auto is_same_dim = [](const onnx::Dimension& x, const onnx::Dimension& y) {
    return x.value == y.value && x.symbol == y.symbol;
  };
  return a.name == b.name && a.type == b.type && a.dtype == b.dtype && a.has_shape == b.has_shape &&
         std::equal(a.dims.begin(), a.dims.end(), b.dims.begin(), b.dims.end(), is_same_dim);
}

bool is_same_node(const onnx::Node& a, const onnx::Node& b, stream::Budget& budget) {
  const auto same = [&](const auto& x, const auto& y) { return is_same_attribute(x, y, budget); };
  return a.op_type == b.op_type && a.domain == b.domain && a.overload == b.overload && a.inputs == b.inputs &&
         a.outputs == b.outputs &&
         std::equal(a.attributes.begin(), a.attributes.end(), b.attributes.begin(), b.attributes.end(), same);
}

bool are_same_nodes(const std::vector<onnx::Node>& a, const std::vector<onnx::Node>& b, stream::Budget& budget) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](const auto& x, const auto& y) { return is_same_node(x, y, budget); });
}

bool is_same_graph(const onnx::Graph& a, const onnx::Graph& b, stream::Budget& budget) {
  const auto same_tensor = [&](const onnx::Tensor& x, const onnx::Tensor& y) {
    return x.name == y.name && is_same_tensor(x, y, budget);
  };
  return std::equal(a.inputs.begin(), a.inputs.end(), b.inputs.begin(), b.inputs.end(), is_same_port) &&
         std::equal(a.outputs.begin(), a.outputs.end(), b.outputs.begin(), b.outputs.end(), is_same_port) &&
         std::equal(a.initializers.begin(), a.initializers.end(), b.initializers.begin(), b.initializers.end(),
                    same_tensor) &&
         a.sparse_initializers.empty() && b.sparse_initializers.empty() && are_same_nodes(a.nodes, b.nodes, budget);
}

}  // namespace

bool has_function(const StatefulCall& call, stream::Budget& budget) {
  if (!is_float_form(call) && !is_integer_form(call)) return false;
  if (!(call.op.cell_clip >= 0 && call.op.proj_clip >= 0)) return false;  // LiteRT refuses others
  const GraphOfCall made(call, budget);
  const StatefulInputs in(made.graph, made.inputs);
  const size_t rank = call.op.is_sequence ? 3 : 2;
  if (call.op.name == "SVDF")
    check_svdf(in, call.op.rank);
  else if (call.op.name.ends_with("LSTM"))
    check_float_lstm(in, rank);
  else
    check_rnn(in, rank);
  return true;
}

onnx::Function stateful_function(const StatefulCall& call, int64_t opset, stream::Budget& budget) {
  GraphOfCall of(call, budget);
  of.add_op(call);
  std::vector<stream::Unsupported> refused;
  onnx::Graph body;
  RaisedModel raised{.from = of.model, .main = body, .refused = refused, .opset = opset};
  OnnxGraph target(raised);
  write_ops(target);
  if (!refused.empty()) throw stream::Unsupported(refused[0].reason(), refused[0].hint());
  onnx::Function out;
  out.name = call.op.name;
  out.domain = kStatefulDomain;
  out.inputs = of.graph.input_names;
  out.outputs = of.graph.output_names;
  for (const onnx::Attribute& one : attributes_of_call(call)) out.attributes.push_back(one.name);
  out.opsets[""] = opset;
  // A function has no initializers.
  for (onnx::Tensor& tensor : body.initializers) {
    onnx::Node constant;
    constant.name = constant.outputs.emplace_back(tensor.name);
    constant.op_type = "Constant";
    onnx::Attribute value;
    value.name = "value";
    value.type = onnx::Attribute::Type::kTensor;
    value.tensors.push_back(std::move(tensor));
    constant.attributes.push_back(std::move(value));
    out.nodes.push_back(std::move(constant));
  }
  for (onnx::Node& node : body.nodes) out.nodes.push_back(std::move(node));
  return out;
}

std::vector<onnx::Attribute> attributes_of_call(const StatefulCall& call) {
  std::vector<int64_t> places, zeros;
  std::vector<float> scales;
  const auto add = [&](const std::optional<core::Quantization>& q) {
    scales.push_back(q ? q->scale[0] : 0);
    zeros.push_back(q && !q->zero_point.empty() ? q->zero_point[0] : 0);
  };
  for (const auto& [place, operand] : call.inputs) {
    places.push_back(static_cast<int64_t>(place));
    add(operand.quantization);
  }
  add(call.result);
  std::vector<onnx::Attribute> out = {attribute("input_places", std::move(places)),
                                      attribute("fused_activation_function", int64_t{call.op.activation})};
  if (call.op.name.ends_with("LSTM")) {
    out.push_back(attribute("cell_clip", call.op.cell_clip));
    out.push_back(attribute("proj_clip", call.op.proj_clip));
  }
  if (call.op.is_sequence) out.push_back(attribute("time_major", int64_t{call.op.time_major}));
  if (call.op.name == "SVDF") out.push_back(attribute("rank", int64_t{call.op.rank}));
  if (call.result) {
    out.push_back(floats_attribute("scales", std::move(scales)));
    out.push_back(attribute("zero_points", std::move(zeros)));
  }
  return out;
}

bool is_same_attribute(const onnx::Attribute& a, const onnx::Attribute& b, stream::Budget& budget) {
  if (a.name != b.name || a.type != b.type || a.reference != b.reference) return false;
  using Type = onnx::Attribute::Type;
  switch (a.type) {
    case Type::kFloat:
      return a.f == b.f;
    case Type::kInt:
      return a.i == b.i;
    case Type::kString:
      return a.s == b.s;
    case Type::kFloats:
      return a.floats == b.floats;
    case Type::kInts:
      return a.ints == b.ints;
    case Type::kTensor:
      return is_same_tensor(a.tensors.at(0), b.tensors.at(0), budget);
    case Type::kGraph:
      return is_same_graph(*a.graphs.at(0), *b.graphs.at(0), budget);
    default:
      return false;  // our bodies have no others
  }
}

bool is_same_body(const onnx::Function& a, const onnx::Function& b, stream::Budget& budget) {
  return a.inputs == b.inputs && a.outputs == b.outputs && a.attributes == b.attributes &&
         a.attribute_defaults.empty() && b.attribute_defaults.empty() && a.opsets == b.opsets &&
         are_same_nodes(a.nodes, b.nodes, budget);
}

bool raise_stateful_call(Raising& r, const StatefulOperator& op) {
  const core::StatefulForm& form = *core::stateful_form(op.name);
  StatefulCall call{.op = op, .inputs = {}, .result = r.out().quantization};
  for (size_t i = 0; i < r.op.inputs.size(); ++i) {
    if (!r.has(i)) continue;
    const Value& value = r.in(i);
    const bool is_given = i == 0 || form.is_state(i);
    if (value.is_constant() == is_given) return false;
    call.inputs[i] = {value.dtype, value.shape, value.quantization};
  }
  Shape& data = call.inputs[0].shape;
  std::fill(data.begin(), data.end() - 1, 1);
  stream::Budget& budget = r.graph.budget;
  if (!has_function(call, budget)) return false;
  onnx::Function made = stateful_function(call, r.onnx.opset, budget);
  std::vector<onnx::Function>& functions = r.onnx.model.functions;
  const auto known = std::find_if(functions.begin(), functions.end(),
                                  [&](const auto& one) { return is_same_body(one, made, budget); });
  if (known == functions.end()) {
    if (!functions.empty()) made.name += fmt::format("_{}", functions.size() + 1);
    functions.push_back(made);
  } else {
    made.name = known->name;
  }
  Names inputs;
  for (const auto& [place, operand] : call.inputs) inputs.push_back(r.stored(place));
  const Names results = r.onnx.nodes(made.name, std::move(inputs), 1 + form.states, attributes_of_call(call));
  onnx::Node& node = r.onnx.out.nodes.back();
  node.domain = kStatefulDomain;
  for (size_t i = 0; i < results.size(); ++i) node.outputs[i] = r.onnx.stored(r.op.outputs[i]);
  r.onnx.model.domains.insert(kStatefulDomain);
  return true;
}

}  // namespace lowtide::layout
