// SPDX-License-Identifier: Apache-2.0
// Dimensions that are known at run time only, computed inside the graph. They are taken from the shapes of the graph's
// inputs where that is possible: inputs keep their axis order, so that no value is transposed back for its shape.
#include <algorithm>

#include "layout/core/builder.h"

namespace lowtide::core {
namespace {

// Element `at` of a list of integers, as a list of one i32.
Val element(Builder& b, Val list, int64_t at) {
  const Dim one = 1;
  return b.cast(b.slice(list, {&at, 1}, {&one, 1}), DType::kInt32);
}

Val axis_of(Builder& b, ValueId value, Dim dim) {
  const Shape& shape = b.graph.at(value).shape;
  auto at = std::find(shape.begin(), shape.end(), dim);
  if (at == shape.end()) return {};
  const int64_t place = at - shape.begin();
  return element(b, b.shape_of({value}), place);
}

Val among_contents(Builder& b, ValueId list, Dim dim) {
  const Value& value = b.graph.at(list);
  if (!value.contents || value.rank() != 1) return {};
  auto at = std::find(value.contents->begin(), value.contents->end(), dim);
  if (at == value.contents->end()) return {};
  const int64_t place = at - value.contents->begin();
  return element(b, {list}, place);
}

Val from_inputs(Builder& b, Dim dim) {
  for (ValueId input : b.graph.inputs)
    if (Val found = axis_of(b, input, dim)) return found;
  // A branch or a body may have a list of dimensions as an input.
  for (ValueId input : b.graph.inputs)
    if (Val found = among_contents(b, input, dim)) return found;
  return {};
}

// Any computed value that has the dimension as an axis, or among the elements of a list.
Val from_values(Builder& b, Dim dim) {
  const size_t count = b.graph.values.size();
  for (size_t v = 0; v < count; ++v) {
    if (b.graph.values[v].producer < 0) continue;
    if (Val found = axis_of(b, static_cast<ValueId>(v), dim)) return found;
  }
  for (size_t v = 0; v < count; ++v) {
    if (b.graph.values[v].producer < 0) continue;
    if (Val found = among_contents(b, static_cast<ValueId>(v), dim)) return found;
  }
  return {};
}

Val number_or_dim(Builder& b, Dim dim) { return is_symbol(dim) ? run_time_dim(b, dim) : b.i32({dim}); }

Val from_parts(Builder& b, const Symbols::Made& made) {
  Val x = number_or_dim(b, made.a), y = x ? number_or_dim(b, made.b) : Val{};
  if (!y) return {};
  switch (made.by) {
    case Symbols::Made::By::kFloorDiv:
      return b.floor_div(x, y);
    case Symbols::Made::By::kMin:
      return b.minimum(x, y);
    case Symbols::Made::By::kMax:
      return b.maximum(x, y);
  }
  return {};
}

Val from_terms(Builder& b, const std::vector<Symbols::Term>& terms) {
  Val sum;
  for (const Symbols::Term& term : terms) {
    Val product;
    if (term.factor != 1 || term.atoms.empty()) product = b.i32({term.factor});
    for (Dim atom : term.atoms) {
      Val factor = run_time_dim(b, atom);
      if (!factor) return {};
      product = product ? b.mul(product, factor) : factor;
    }
    sum = sum ? b.add(sum, product) : product;
  }
  return sum;
}

}  // namespace

Val run_time_dim(Builder& b, Dim dim) {
  if (Val found = from_inputs(b, dim)) return found;
  const std::vector<Symbols::Term> terms = b.graph.symbols.terms(dim);
  const bool is_atom = terms.size() == 1 && terms[0].factor == 1 && terms[0].atoms.size() == 1;
  Val found;
  if (!is_atom)
    found = from_terms(b, terms);
  else if (auto made = b.graph.symbols.made(dim))
    found = from_parts(b, *made);
  return found ? found : from_values(b, dim);
}

}  // namespace lowtide::core
