// SPDX-License-Identifier: Apache-2.0
#include "layout/lower/subgraph.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "layout/core/subgraphs.h"

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

std::vector<const onnx::ValueInfo*> given_inputs(const onnx::Graph& body) {
  std::unordered_set<std::string_view> constants;
  for (const onnx::Tensor& tensor : body.initializers) constants.insert(tensor.name);
  for (const onnx::SparseTensor& tensor : body.sparse_initializers) constants.insert(tensor.values.name);
  std::vector<const onnx::ValueInfo*> out;
  for (const onnx::ValueInfo& input : body.inputs)
    if (!constants.contains(input.name)) out.push_back(&input);
  return out;
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

Shape shape_of_rows(core::SubgraphBuilder& subgraph, Val row, const onnx::ValueInfo& declared) {
  Shape shape = subgraph.b().shape(row);
  const bool helps = declared.has_shape && declared.dims.size() == shape.size();
  for (size_t i = 0; helps && i < shape.size(); ++i)
    if (core::is_symbol(shape[i]) && declared.dims[i].value >= 0) shape[i] = declared.dims[i].value;
  return shape;
}

ScanOutput scan_output(Lowering& lo, core::SubgraphBuilder& subgraph, Val row, const onnx::ValueInfo& declared,
                       int64_t axis, Dim length) {
  Shape shape = shape_of_rows(subgraph, row, declared);
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

}  // namespace lowtide::layout
