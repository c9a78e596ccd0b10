// SPDX-License-Identifier: Apache-2.0
#include "layout/narrowed_nodes.h"

#include <fmt/format.h>

namespace lowtide::layout {
namespace {

using core::DType;

bool is_cast_of_the_model(const std::string& op) { return op == "Cast" || op == "CastLike"; }

}  // namespace

std::vector<core::NarrowedNode> narrowed_nodes(const core::Model& model, const core::Graph& graph,
                                               const NarrowedTypes& changed) {
  NarrowedTypes all = changed;
  for (const core::Op& op : graph.ops)
    if (op.kind == core::Kind::kCast && graph.at(op.inputs[0]).dtype == DType::kFloat64 &&
        graph.at(op.outputs[0]).dtype == DType::kFloat32)
      all.emplace(op.origin, DType::kFloat64, DType::kFloat32);
  std::vector<core::NarrowedNode> out;
  for (const auto& [origin, from, to] : all) {
    const std::string& op = model.onnx_operators[graph.origin_operator(origin)];
    if (!is_cast_of_the_model(op)) out.push_back({graph.origins[origin], op, from, to});
  }
  return out;
}

std::vector<stream::Unsupported> refused_for_their_types(const std::vector<core::NarrowedNode>& nodes) {
  std::vector<stream::Unsupported> out;
  for (const core::NarrowedNode& node : nodes) {
    stream::Unsupported refused(
        fmt::format("it would be computed in {}; its data are {}", dtype_name(node.to), dtype_name(node.from)),
        fmt::format("leave out --strict-types, or cast its data to {} in the model", dtype_name(node.to)));
    refused.add_place({.node = node.node, .op = node.op});
    out.push_back(std::move(refused));
  }
  return out;
}

}  // namespace lowtide::layout
