// SPDX-License-Identifier: Apache-2.0
// If: where the condition is known, the chosen branch is inlined; otherwise both branches become graphs of an IF.
//
// A subgraph refers to values of the graphs around it by name. The outputs of the two branches may differ in shape, not
// in type.
#include <fmt/format.h>

#include "layout/core/subgraphs.h"
#include "layout/lower/subgraph.h"

namespace lowtide::layout {

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
