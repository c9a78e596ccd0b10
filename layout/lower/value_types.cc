// SPDX-License-Identifier: Apache-2.0
#include "layout/lower/value_types.h"

#include <algorithm>
#include <span>

namespace lowtide::layout {
namespace {

// A symbol's formula, in a form that no symbol of another lowering has by chance: those that have no name have '#'.
onnx::Dimension dimension_of(core::Dim dim, const core::Symbols& symbols) {
  if (!core::is_symbol(dim)) return {dim, ""};
  std::string formula = symbols.to_string(dim);
  std::replace(formula.begin(), formula.end(), '#', '!');
  return {-1, std::move(formula)};
}

}  // namespace

ValueType type_of(core::Graph& graph, core::ValueId value) {
  ValueType out;
  const core::Value& known = graph.at(value);
  out.is_list = core::is_tensor_list(graph, value);
  if (out.is_list) return out;
  out.dtype = known.dtype;
  for (const core::Dim dim : known.shape) out.dims.push_back(dimension_of(dim, graph.symbols));
  const bool may_be_known = !stream::is_float(known.dtype) && stream::is_static(known.shape);
  if (!may_be_known) return out;
  if (const auto elements = graph.ints(value)) {
    // Of u64 they are the bits: as numbers, those of 2^63 and more would be negative.
    const std::span<const int64_t> all(*elements);
    out.integers = out.dtype == stream::DType::kUint64 ? stream::recipe::values(all, out.dtype, known.shape)
                                                       : stream::recipe::ints(all, out.dtype, known.shape);
  }
  return out;
}

}  // namespace lowtide::layout
