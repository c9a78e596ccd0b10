// SPDX-License-Identifier: Apache-2.0
// IF and WHILE. Their graphs become attributes; what these only read is read from the graph around them.
//
// The trap: TFLite's condition is a graph, ONNX's a value. So it is computed before the loop, and again at the end of
// each turn, of the turn's results.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "layout/raise/families.h"
#include "layout/raise/raising.h"
#include "layout/raise/write_ops.h"

namespace lowtide::layout {
namespace {

// The condition of a WHILE is written twice, so one in another's condition four times.
constexpr size_t kMostCalledOps = size_t{1} << 16;

core::Graph& called_graph(const Raising& r, int index) { return *r.onnx.model.from.graphs[static_cast<size_t>(index)]; }

// Writes the graph's nodes to `into`; the tensors of its outputs.
Names write_called(Raising& r, core::Graph& called, onnx::Graph& into, std::span<const std::string> inputs) {
  size_t& count = r.onnx.model.called_ops;
  count = std::min(kMostCalledOps, count) + called.ops.size();
  if (count > kMostCalledOps)
    r.unsupported(fmt::format("its graphs would be written with more than {} ops", kMostCalledOps));
  OnnxGraph target(r.onnx.model, called, into, inputs);
  write_ops(target);
  Names out;
  for (ValueId id : called.outputs) out.push_back(target.stored(id));
  return out;
}

onnx::Attribute graph_attribute(std::string_view name, std::shared_ptr<onnx::Graph> graph) {
  onnx::Attribute out;
  out.name = name;
  out.type = onnx::Attribute::Type::kGraph;
  out.graphs.push_back(std::move(graph));
  return out;
}

// Writes nodes to a graph that has no core graph of its own.
std::string inner_node(Raising& r, onnx::Graph& into, std::string_view type, Names inputs) {
  onnx::Node made;
  made.op_type = type;
  made.name = r.onnx.fresh(type);
  made.inputs = std::move(inputs);
  made.outputs = {r.onnx.fresh(type)};
  into.nodes.push_back(std::move(made));
  return into.nodes.back().outputs[0];
}

// A name of its own, which a node of the graph writes: an output may be an input, a constant, or another output.
std::string own_output(Raising& r, onnx::Graph& into, const std::string& name) {
  const auto writes = [&](const onnx::Node& node) {
    return std::find(node.outputs.begin(), node.outputs.end(), name) != node.outputs.end();
  };
  const bool is_taken =
      std::any_of(into.outputs.begin(), into.outputs.end(), [&](const auto& port) { return port.name == name; });
  if (!is_taken && std::any_of(into.nodes.begin(), into.nodes.end(), writes)) return name;
  return inner_node(r, into, "Identity", {name});
}

void add_outputs(Raising& r, const core::Graph& called, onnx::Graph& into, const Names& names) {
  for (size_t i = 0; i < names.size(); ++i)
    into.outputs.push_back(port_of(called, called.outputs[i], own_output(r, into, names[i])));
}

Names stored_inputs(Raising& r, size_t first) {
  Names out;
  for (size_t i = first; i < r.op.inputs.size(); ++i) out.push_back(r.stored(i));
  return out;
}

std::string as_scalar(Raising& r, const std::string& condition, int rank, onnx::Graph& into) {
  return rank == 0 ? condition : inner_node(r, into, "Squeeze", {condition});
}

void raise_if(Raising& r) {
  const auto& o = r.options<core::SubgraphOptions>();
  const Names inputs = stored_inputs(r, 1);
  Attributes branches;
  for (const auto& [name, index] : {std::pair("then_branch", o.first), std::pair("else_branch", o.second)}) {
    core::Graph& called = called_graph(r, index);
    const auto made = std::make_shared<onnx::Graph>();
    made->name = r.onnx.fresh(name);
    add_outputs(r, called, *made, write_called(r, called, *made, inputs));
    branches.push_back(graph_attribute(name, made));
  }
  const std::string condition = as_scalar(r, r.stored(0), r.in(0).rank(), r.onnx.out);
  const Names made = r.onnx.nodes("If", {condition}, r.op.outputs.size(), std::move(branches));
  for (size_t i = 0; i < made.size(); ++i) r.give_stored(made[i], i);
}

void raise_while(Raising& r) {
  const auto& o = r.options<core::SubgraphOptions>();
  core::Graph& question = called_graph(r, o.first);
  core::Graph& turn = called_graph(r, o.second);
  const int rank = question.at(question.outputs[0]).rank();
  const size_t carried = r.op.outputs.size();
  const Names begin = stored_inputs(r, 0);
  const std::string first = as_scalar(r, write_called(r, question, r.onnx.out, begin)[0], rank, r.onnx.out);

  const auto body = std::make_shared<onnx::Graph>();
  body->name = r.onnx.fresh("body");
  for (const auto& [name, dtype] : {std::pair("turn", DType::kInt64), std::pair("condition", DType::kBool)}) {
    onnx::ValueInfo port;
    port.name = r.onnx.fresh(name);
    port.type = onnx::ValueInfo::Type::kTensor;
    port.dtype = dtype;
    port.has_shape = true;
    body->inputs.push_back(std::move(port));
  }
  Names now = begin;  // the first `carried` are the turn's, the rest is read from outside
  for (size_t i = 0; i < carried; ++i) {
    now[i] = r.onnx.fresh("carried");
    body->inputs.push_back(port_of(turn, turn.inputs[i], now[i]));
  }
  const Names results = write_called(r, turn, *body, now);
  Names next = now;
  std::copy(results.begin(), results.end(), next.begin());
  const std::string again = as_scalar(r, write_called(r, question, *body, next)[0], rank, *body);
  onnx::ValueInfo answer = body->inputs[1];
  answer.name = own_output(r, *body, again);
  body->outputs.push_back(std::move(answer));
  add_outputs(r, turn, *body, results);

  Names inputs = {"", first};
  inputs.insert(inputs.end(), begin.begin(), begin.begin() + static_cast<std::ptrdiff_t>(carried));
  const Names made = r.onnx.nodes("Loop", std::move(inputs), carried, {graph_attribute("body", body)});
  for (size_t i = 0; i < made.size(); ++i) r.give_stored(made[i], i);
}

constexpr RaiseRow kControl[] = {
    {Kind::kIf, 1, RaiseRow::kAnyNumber, raise_if},
    {Kind::kWhile, 1, RaiseRow::kAnyNumber, raise_while},
};

}  // namespace

std::span<const RaiseRow> raised_control() { return kControl; }

}  // namespace lowtide::layout
