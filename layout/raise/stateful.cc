// SPDX-License-Identifier: Apache-2.0
// LSTM, RNN and SVDF with their states as inputs and outputs. A sequence is a Scan over time; the products of its data
// with weights are made for all steps at once, before it.
//
// ONNX's LSTM is not used: its clip limits what the activations get, TFLite's the cell, and it has neither projection
// nor normalization. The integer kernel rounds the sums of gates, the cell and the result of each step, and so does the
// Scan.
#include "layout/raise/stateful.h"

#include <array>
#include <memory>

#include "layout/raise/families.h"
#include "layout/raise/raising.h"
#include "schemas/tflite_generated.h"

namespace lowtide::layout {
namespace {

namespace recipe = stream::recipe;

// Nodes of one step, in the graph itself or in the body of a Scan.
class Step {
 public:
  Step(Raising& op, OnnxGraph& target) : r(op), g(target) {}
  Raising& r;
  OnnxGraph& g;

  std::string node(const char* type, Names inputs) { return g.node(type, std::move(inputs)); }
  std::string number(double value) { return g.initializer(recipe::fill_value(value, DType::kFloat32, {}), "constant"); }
  std::string clipped(const std::string& x, float most) {
    return most > 0 ? node("Clip", {x, number(-most), number(most)}) : x;
  }
  std::string activated(const std::string& x, int activation) {
    using tflite::ActivationFunctionType;
    switch (static_cast<ActivationFunctionType>(activation)) {
      case ActivationFunctionType::NONE:
        return x;
      case ActivationFunctionType::RELU:
        return node("Relu", {x});
      case ActivationFunctionType::RELU6:
        return node("Clip", {x, number(0), number(6)});
      case ActivationFunctionType::TANH:
        return node("Tanh", {x});
      default:
        r.unsupported("its activation is not supported");
    }
  }
  // As the integer LSTM stores what a gate's activation gets. Source: LiteRT's tflite/kernels/lstm_eval.cc,
  // CalculateLstmGateInteger8x8_16.
  std::string of_gate(const std::string& x) {
    const core::Quantization steps{.scale = {0x1p-12F}, .zero_point = {0}, .axis = 0};
    return g.dequantized(g.quantized(x, steps, DType::kInt16), steps, DType::kInt16, false);
  }
  // As the integers of the value store it.
  std::string rounded(const std::string& x, const Value& like) {
    if (!like.quantization) return x;
    return g.dequantized(g.quantized(x, *like.quantization, like.dtype), *like.quantization, like.dtype, false);
  }
};

// [units, inputs] as real numbers [inputs, units].
std::string turned_weights(Raising& r, size_t i) {
  const Value& value = r.in(i);
  const stream::Perm perm = {1, 0};
  std::string turned = value.is_constant() ? r.onnx.initializer(recipe::permute(value.constant, perm), value.name)
                                           : r.node("Transpose", {r.stored(i)}, {attribute("perm", {1, 0})});
  if (!value.quantization) return turned;
  core::Quantization scales = *value.quantization;
  if (scales.scale.size() > 1) scales.axis = 1 - scales.axis;
  return r.onnx.dequantized(turned, scales, value.dtype, false);
}

// The data times weights, for all steps.
std::string product_of_data(Raising& r, size_t weights) {
  return r.node("MatMul", {r.real(0), turned_weights(r, weights)});
}

// With the further data times theirs, of which those of `gate` are meant.
std::string product_of_all_data(Raising& r, const StatefulOperator& o, size_t weights, size_t gate) {
  std::string product = product_of_data(r, weights);
  if (o.further_data == 0) return product;
  const std::string further = r.node("MatMul", {r.real(o.further_data), turned_weights(r, o.further_data + 1 + gate)});
  return r.node("Add", {product, further});
}

constexpr size_t kInputGate = 0, kForgetGate = 1, kCellGate = 2, kOutputGate = 3, kGates = 4;

// One LSTM with what its steps read; constants stand outside of the Scan.
struct Lstm {
  const StatefulOperator& o;
  bool is_coupled;  // the input gate is what the forget gate leaves
  std::array<std::string, kGates> recurrent, peephole, factor, bias;
  std::string projection, projection_bias;
};

Lstm lstm_of(Raising& r, const StatefulOperator& o) {
  Lstm out{.o = o, .is_coupled = !r.has(1)};
  for (size_t gate = out.is_coupled ? 1 : 0; gate < kGates; ++gate) {
    out.recurrent[gate] = turned_weights(r, 5 + gate);
    const size_t peephole = gate == kOutputGate ? 11 : 9 + gate;
    if (gate != kCellGate && r.has(peephole)) out.peephole[gate] = r.real(peephole);
    if (r.has(20 + gate)) out.factor[gate] = r.real(20 + gate);
    out.bias[gate] = raised_bias(r, 0, 1 + gate, 12 + gate);
  }
  if (r.has(16)) out.projection = turned_weights(r, 16);
  if (r.has(17)) out.projection_bias = r.real(17);
  return out;
}

// What a gate's activation gets. `data` is the data's part; with a normalization the bias comes behind it.
std::string gate_sum(Step& s, const Lstm& lstm, size_t gate, const std::string& data, const std::string& hidden,
                     const std::string& cell) {
  const bool is_plain = lstm.factor[gate].empty();
  std::string sum = s.node("MatMul", {hidden, lstm.recurrent[gate]});
  // The integer kernel adds the two products in 16 bits of 1 / 4096, one after the other: each sum ends at -8 and 8.
  if (s.r.in(0).quantization) return s.of_gate(s.node("Add", {s.of_gate(s.node("Add", {data, lstm.bias[gate]})), sum}));
  // Beside the product of the state, not that of the data, which has three axes: ONNX Runtime 1.31 makes a Gemm of a
  // product and a bias, and at opset 21 gives the Reshapes around it a wrong type when its data is quantized.
  if (is_plain) sum = s.node("Add", {sum, lstm.bias[gate]});
  sum = s.node("Add", {data, sum});
  if (!lstm.peephole[gate].empty()) sum = s.node("Add", {sum, s.node("Mul", {cell, lstm.peephole[gate]})});
  if (is_plain) return sum;
  constexpr double kLeastVariance = 1e-8;  // of LiteRT's kernel
  const auto mean = [&](const std::string& x) {
    return s.g.node("ReduceMean",
                    {x, s.g.initializer(recipe::ints(std::array<int64_t, 1>{-1}, DType::kInt64, {1}), "list")});
  };
  const auto mean_17 = [&](const std::string& x) {
    return s.g.node("ReduceMean", {x}, {attribute("axes", std::vector<int64_t>{-1})});
  };
  const auto average = [&](const std::string& x) { return s.g.opset >= 18 ? mean(x) : mean_17(x); };
  const std::string centred = s.node("Sub", {sum, average(sum)});
  const std::string variance = average(s.node("Mul", {centred, centred}));
  const std::string deviation = s.node("Sqrt", {s.node("Add", {variance, s.number(kLeastVariance)})});
  const std::string scaled = s.node("Mul", {s.node("Div", {centred, deviation}), lstm.factor[gate]});
  return s.node("Add", {scaled, lstm.bias[gate]});
}

// The new hidden state and cell.
Names lstm_step(Step& s, const Lstm& lstm, const Names& data, const Names& states) {
  const std::string &hidden = states[0], &before = states[1];
  const auto gate = [&](size_t i, const std::string& cell) {
    return gate_sum(s, lstm, i, data[lstm.is_coupled ? i - 1 : i], hidden, cell);
  };
  const std::string forget = s.node("Sigmoid", {gate(kForgetGate, before)});
  const std::string input =
      lstm.is_coupled ? s.node("Sub", {s.number(1), forget}) : s.node("Sigmoid", {gate(kInputGate, before)});
  const std::string candidate = s.activated(gate(kCellGate, before), lstm.o.activation);
  std::string cell = s.node("Add", {s.node("Mul", {forget, before}), s.node("Mul", {input, candidate})});
  cell = s.rounded(s.clipped(cell, lstm.o.cell_clip), s.r.in(19));
  const std::string output = s.node("Sigmoid", {gate(kOutputGate, cell)});
  std::string made = s.node("Mul", {output, s.activated(cell, lstm.o.activation)});
  if (!lstm.projection.empty()) {
    made = s.node("MatMul", {made, lstm.projection});
    if (!lstm.projection_bias.empty()) made = s.node("Add", {made, lstm.projection_bias});
    made = s.clipped(made, lstm.o.proj_clip);
  }
  return {s.rounded(made, s.r.in(18)), cell};
}

onnx::ValueInfo number_port(std::string name, const Shape& shape) {
  onnx::ValueInfo out;
  out.name = std::move(name);
  out.type = onnx::ValueInfo::Type::kTensor;
  out.dtype = DType::kFloat32;
  out.has_shape = true;
  for (core::Dim dim : shape) {
    out.dims.emplace_back();
    if (stream::is_static(dim)) out.dims.back().value = dim;
  }
  return out;
}

// Runs `step(Step&, data, states) -> states` over time. `data` are tensors with an axis of time; the results are the
// first state of each step, and the last states.
template <typename Function>
void scan(Raising& r, const StatefulOperator& o, const Names& data, const std::vector<size_t>& states, Function step) {
  Names begin;
  for (size_t state : states) begin.push_back(r.real(state));
  if (!o.is_sequence) {
    Step s(r, r.onnx);
    const Names made = step(s, data, begin);
    // One tensor may be two results.
    r.give(r.node("Identity", {made[0]}));
    for (size_t i = 0; i < made.size(); ++i) r.give(r.node("Identity", {made[i]}), i + 1);
    return;
  }
  const auto body = std::make_shared<onnx::Graph>();
  body->name = r.onnx.fresh("step");
  OnnxGraph inner(r.onnx.model, r.graph, *body, {});
  Names now, parts;
  for (size_t state : states) {
    now.push_back(r.onnx.fresh("state"));
    body->inputs.push_back(number_port(now.back(), r.in(state).shape));
  }
  const Shape& first = r.in(states[0]).shape;
  for (size_t i = 0; i < data.size(); ++i) {
    parts.push_back(r.onnx.fresh("data"));
    body->inputs.push_back(number_port(parts.back(), {first[0], r.in(states.back()).shape[1]}));
  }
  Step s(r, inner);
  Names made = step(s, parts, now);
  made.push_back(made[0]);
  for (size_t i = 0; i < made.size(); ++i) {
    const Shape& shape = i < states.size() ? r.in(states[i]).shape : first;
    body->outputs.push_back(number_port(inner.node("Identity", {made[i]}), shape));
  }
  onnx::Attribute graph;
  graph.name = "body";
  graph.type = onnx::Attribute::Type::kGraph;
  graph.graphs.push_back(body);
  const int64_t axis = o.time_major ? 0 : 1;
  Names inputs = begin;
  inputs.insert(inputs.end(), data.begin(), data.end());
  Attributes attributes = {graph, attribute("num_scan_inputs", static_cast<int64_t>(data.size())),
                           attribute("scan_input_axes", std::vector<int64_t>(data.size(), axis)),
                           attribute("scan_output_axes", std::vector<int64_t>(1, axis))};
  if (o.is_backwards) {
    attributes.push_back(attribute("scan_input_directions", std::vector<int64_t>(data.size(), 1)));
    attributes.push_back(attribute("scan_output_directions", std::vector<int64_t>(1, 1)));
  }
  const Names results = r.onnx.nodes("Scan", std::move(inputs), made.size(), std::move(attributes));
  r.onnx.begin_op();  // its results keep their names until each is given
  r.give(results.back());
  for (size_t i = 0; i < states.size(); ++i) r.give(results[i], i + 1);
}

// Source: LiteRT's tflite/kernels/internal/tensor_utils.h, ApplyActivationToVector, which does nothing for NONE, and
// lstm_eval.cc, whose integer kernels know Tanh only.
void check_activation(const Raising& r, const StatefulOperator& o) {
  const auto activation = static_cast<tflite::ActivationFunctionType>(o.activation);
  if (activation == tflite::ActivationFunctionType::NONE)
    r.unsupported("without an activation LiteRT's kernel multiplies the output gate by memory that it did not write");
  if (r.in(0).quantization && activation != tflite::ActivationFunctionType::TANH)
    r.unsupported("on integers LiteRT's kernel computes TANH, whatever the activation is");
}

void raise_lstm(Raising& r, const StatefulOperator& o) {
  check_activation(r, o);
  const Lstm lstm = lstm_of(r, o);
  Names data;
  for (size_t gate = lstm.is_coupled ? 1 : 0; gate < kGates; ++gate) {
    data.push_back(product_of_all_data(r, o, 1 + gate, gate));
  }
  scan(r, o, data, {18, 19},
       [&](Step& s, const Names& parts, const Names& states) { return lstm_step(s, lstm, parts, states); });
}

void raise_rnn(Raising& r, const StatefulOperator& o) {
  const std::string recurrent = turned_weights(r, 2);
  scan(r, o, {r.node("Add", {product_of_all_data(r, o, 1, 0), r.real(3)})}, {4},
       [&](Step& s, const Names& parts, const Names& states) {
         const std::string sum = s.node("Add", {parts[0], s.node("MatMul", {states[0], recurrent})});
         return Names{s.activated(sum, o.activation)};
       });
}

// Each filter remembers its last products with the data; the newest comes last.
void raise_svdf(Raising& r, const StatefulOperator& o) {
  const core::Dim batch = r.in(4).shape[0], filters = r.in(2).shape[0], memory = r.in(2).shape[1];
  const std::string now = r.reshaped(product_of_data(r, 1), {batch, filters, 1});
  const std::string before = r.reshaped(r.real(4), {batch, filters, memory});
  const std::string kept = r.node("Slice", {before, r.int64_list({1}), r.int64_list({memory}), r.int64_list({2})});
  const std::string all = r.node("Concat", {kept, now}, {attribute("axis", int64_t{2})});
  const std::string weighted = r.node("Mul", {all, r.real(2)});
  const std::string parts = r.reshaped(weighted, {batch, filters / o.rank, o.rank * memory});
  std::string sum = r.node("ReduceSum", {parts, r.int64_list({2})}, {attribute("keepdims", int64_t{0})});
  if (r.has(3)) sum = r.node("Add", {sum, r.real(3)});
  Step s(r, r.onnx);
  r.give(r.node("Identity", {s.activated(sum, o.activation)}));
  r.give(r.reshaped(all, {batch, filters * memory}), 1);
}

}  // namespace

void raise_stateful(Raising& r) {
  const auto& o = static_cast<const StatefulOperator&>(*r.options<core::CustomOptions>().described);
  if (o.is_call && raise_stateful_call(r, o)) return;
  if (o.name == "SVDF") return raise_svdf(r, o);
  o.name.ends_with("LSTM") ? raise_lstm(r, o) : raise_rnn(r, o);
}

}  // namespace lowtide::layout
