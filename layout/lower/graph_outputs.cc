// SPDX-License-Identifier: Apache-2.0
#include "layout/lower/graph_outputs.h"

#include <set>
#include <vector>

#include "layout/lower/graph_inputs.h"

namespace lowtide::layout {
namespace {

// Whether a dimension of an input is part of the formula.
bool follows_from_inputs(const core::Graph& graph, core::Dim dim) {
  std::set<core::Dim> given, seen;
  for (core::ValueId input : graph.inputs)
    for (core::Dim one : graph.at(input).shape)
      for (const core::Symbols::Term& term : graph.symbols.terms(one))
        given.insert(term.atoms.begin(), term.atoms.end());
  std::vector<core::Dim> pending{dim};
  while (!pending.empty()) {
    const core::Dim next = pending.back();
    pending.pop_back();
    if (!core::is_symbol(next) || !seen.insert(next).second) continue;
    if (given.contains(next)) return true;
    if (const auto made = graph.symbols.made(next)) {
      pending.insert(pending.end(), {made->a, made->b});
    } else {
      for (const core::Symbols::Term& term : graph.symbols.terms(next))
        pending.insert(pending.end(), term.atoms.begin(), term.atoms.end());
    }
  }
  return false;
}

}  // namespace

Val as_declared(Builder& builder, Val v, const onnx::ValueInfo& info) {
  const bool narrows = is_half(info.dtype) && builder.dtype(v) == core::DType::kFloat32;
  return narrows ? builder.cast(v, info.dtype) : v;
}

void note_declared_extents(const core::Graph& graph, Val v, const onnx::ValueInfo& info,
                           std::map<core::Dim, core::Dim>& extents) {
  const core::Shape& shape = graph.at(v.id).shape;
  if (!info.has_shape || info.dims.size() != shape.size()) return;
  for (size_t i = 0; i < info.dims.size(); ++i)
    if (core::is_symbol(shape[i]) && info.dims[i].value >= 0 && !follows_from_inputs(graph, shape[i]))
      extents.emplace(shape[i], info.dims[i].value);
}

}  // namespace lowtide::layout
