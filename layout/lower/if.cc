// SPDX-License-Identifier: Apache-2.0
// If: where the condition is known, the chosen branch is inlined; otherwise both branches become graphs of an IF.
//
// A subgraph refers to values of the graphs around it by name. The outputs of the two branches may differ in shape, not
// in type.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "layout/core/subgraphs.h"
#include "layout/lower/lists.h"
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

// The results of a branch that are lists. The IF gives their elements; those of an open list, which is in a graph that
// is discarded, are stand-ins in the graph around.
using Lists = std::vector<std::optional<List>>;

// The results of a branch, its lists in parts.
std::vector<Val> without_lists(Lowering& lo, Builder& branch, std::span<const Val> results, Lists& lists) {
  std::vector<Val> parts;
  for (Val v : results) {
    if (!branch.is_tensor_list(v)) {
      lists.emplace_back();
      parts.push_back(v);
      continue;
    }
    List list = list_of(branch, v);
    if (list.form != List::Form::kOpen) parts.insert(parts.end(), list.elements.begin(), list.elements.end());
    if (list.form == List::Form::kOpen)
      for (Val& element : list.elements) element = stand_in(lo.b, branch.dtype(element), branch.shape(element));
    lists.emplace_back(std::move(list));
  }
  return parts;
}

// What an IF gives of two lists; refused where it cannot be the same.
List common_list(Lowering& lo, const std::optional<List>& yes, const std::optional<List>& no) {
  if (!yes || !no) lo.unsupported("one branch gives a list, the other one a tensor");
  const bool is_open = yes->form == List::Form::kOpen;
  if (yes->form != no->form || (!is_open && yes->elements.size() != no->elements.size()) ||
      yes->joint.axis != no->joint.axis || yes->joint.stacks != no->joint.stacks)
    lo.unsupported("the branches give lists of different lengths", kListHint);
  List list = yes->elements.size() < no->elements.size() ? *no : *yes;
  list.joint.of_ones = yes->joint.of_ones && no->joint.of_ones;
  return list;
}

std::vector<Val> if_at_run_time(Lowering& lo, const onnx::Graph& yes, const onnx::Graph& no) {
  Lists first, second;
  std::vector<std::optional<List>> common;
  auto then_branch = [&](core::SubgraphBuilder& subgraph) {
    return without_lists(lo, subgraph.b(), lower_branch(lo, subgraph, yes), first);
  };
  auto else_branch = [&](core::SubgraphBuilder& subgraph) {
    std::vector<Val> parts = without_lists(lo, subgraph.b(), lower_branch(lo, subgraph, no), second);
    for (size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
      common.emplace_back();
      if (first[i] || second[i]) common.back() = common_list(lo, first[i], second[i]);
    }
    return parts;
  };
  const std::vector<Val> made = core::run_if(lo.around.model(), lo.b, lo.input(0), then_branch, else_branch);
  std::vector<Val> out;
  auto next = made.begin();
  for (std::optional<List>& list : common) {
    if (list && list->form != List::Form::kOpen)
      for (Val& element : list->elements) element = *next++;
    out.push_back(list ? as_value(lo.b, *list) : *next++);
  }
  return out;
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
    out = if_at_run_time(lo, yes, no);
  }
  if (out.size() != lo.output_count())
    lo.malformed(fmt::format("a branch has {} outputs, but the node has {}", out.size(), lo.output_count()));
  for (size_t i = 0; i < out.size(); ++i) lo.output(i, out[i]);
}

}  // namespace lowtide::layout
