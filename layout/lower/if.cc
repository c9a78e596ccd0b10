// SPDX-License-Identifier: Apache-2.0
// If: where the condition is known, the chosen branch is inlined; otherwise both branches become graphs of an IF. Also
// holds what If, Loop and Scan share.
//
// A subgraph refers to values of the graphs around it by name. The outputs of the two branches may differ in shape, not
// in type.
#include <fmt/format.h>

#include <algorithm>

#include "layout/core/subgraphs.h"
#include "layout/lower/subgraph.h"

namespace lowtide::layout {

// A graph without nodes counts, too: a loop of loops over nothing takes its time all the same.
static int64_t node_count(const onnx::Graph& graph) {
  auto count = std::max<int64_t>(1, static_cast<int64_t>(graph.nodes.size()));
  for (const onnx::Node& node : graph.nodes)
    for (const onnx::Attribute& attribute : node.attributes)
      for (const auto& inner : attribute.graphs) count += node_count(*inner);
  return count;
}

const onnx::Graph& subgraph(Lowering& lo, std::string_view name) {
  const onnx::Attribute* found = lo.attr(name);
  if (!found || found->type != onnx::Attribute::Type::kGraph || found->graphs.size() != 1)
    lo.malformed(fmt::format("attribute '{}' is missing or not a graph", name));
  return *found->graphs[0];
}

Unrolling::Unrolling(Lowering& lo, const onnx::Graph& body)
    : around_(lo.around), at_first_(lo.around.inner_nodes()), nodes_(node_count(body)) {}

bool Unrolling::may_have(int64_t turns) const { return turns <= kMostUnrolledNodes / nodes_; }

void Unrolling::end_turn() { nodes_ = std::max(nodes_, (around_.inner_nodes() - at_first_) / ++turns_); }

std::optional<bool> known_bool(const Lowering& lo, Val v) {
  auto known = lo.ints(v);
  if (!known || known->size() != 1) return std::nullopt;
  return (*known)[0] != 0;
}

ScanOutput scan_output(Lowering& lo, core::SubgraphBuilder& subgraph, Val row, const onnx::ValueInfo& declared,
                       int64_t axis, Dim length) {
  Shape shape = subgraph.b().shape(row);
  const bool helps = declared.has_shape && declared.dims.size() == shape.size();
  for (size_t i = 0; helps && i < shape.size(); ++i)
    if (core::is_symbol(shape[i]) && declared.dims[i].value >= 0) shape[i] = declared.dims[i].value;
  const int at = lo.axis(axis, static_cast<int>(shape.size()) + 1);
  shape.insert(shape.begin() + at, length);
  // No element of it is read, so it may be any number that each type has: f8e8m0 has no 0.
  return {at, lo.b.broadcast_to(lo.b.scalar(1, subgraph.b().dtype(row)), shape)};
}

Val append_row(Builder& b, const ScanOutput& how, Val so_far, Val row) {
  return b.concat({so_far, b.unsqueeze(row, std::vector<int>{how.axis})}, how.axis);
}

Val write_row(Builder& b, const ScanOutput& how, Val so_far, Val row, Val at) {
  std::vector<Val> begin(static_cast<size_t>(b.rank(so_far)), b.i32_scalar(0));
  begin[static_cast<size_t>(how.axis)] = at;
  row = b.unsqueeze(row, std::vector<int>{how.axis});
  return b.op(core::Kind::kDynamicUpdateSlice, {so_far, row, b.pack(begin, 0)});
}

namespace {

// ONNX reports a branch whose shapes do not fit only when it runs. TFLite has no operator that fails at run time.
std::vector<Val> lower_branch(Lowering& lo, core::SubgraphBuilder& subgraph, const onnx::Graph& graph) {
  try {
    return lo.around.lower_into(subgraph, graph, {});
  } catch (const stream::Error& error) {
    if (error.code() != stream::Code::kMalformed) throw;
    lo.unsupported(
        fmt::format("a branch is not valid for these shapes: node '{}': {}", error.where().node, error.text()),
        "make the condition constant, or give shapes that are valid in both branches");
  }
}

}  // namespace

void lower_if(Lowering& lo) {
  const onnx::Graph &yes = subgraph(lo, "then_branch"), &no = subgraph(lo, "else_branch");
  if (lo.dtype(lo.input(0)) != DType::kBool)
    lo.malformed(fmt::format("the condition must be bool; it is {}", stream::dtype_name(lo.dtype(lo.input(0)))));
  if (const Dim elements = lo.b.graph.symbols.product(lo.shape(lo.input(0)));
      !core::is_symbol(elements) && elements != 1)
    lo.malformed(fmt::format("the condition must have one element; it has {}", elements));
  std::vector<Val> out;
  if (auto condition = known_bool(lo, lo.input(0))) {
    out = lo.around.lower_inline(*condition ? yes : no, {});
  } else {
    auto branch = [&](const onnx::Graph& graph) {
      return [&](core::SubgraphBuilder& subgraph) { return lower_branch(lo, subgraph, graph); };
    };
    out = core::run_if(lo.around.model(), lo.b, lo.input(0), branch(yes), branch(no));
  }
  if (out.size() != lo.output_count())
    lo.malformed(fmt::format("a branch has {} outputs, but the node has {}", out.size(), lo.output_count()));
  for (size_t i = 0; i < out.size(); ++i) lo.output(i, out[i]);
}

}  // namespace lowtide::layout
