// SPDX-License-Identifier: Apache-2.0
// Dimensions that are known at run time only, computed inside the graph. They are taken from the shapes of the graph's
// inputs where that is possible: inputs keep their axis order, so that no value is transposed back for its shape.
#include <algorithm>
#include <map>
#include <vector>

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

// Formulas share their parts, and each is computed once. One that goes deeper, or has more parts, is taken from a value
// that has it.
class Formula {
 public:
  explicit Formula(Builder& builder) : b_(builder) {}

  Val dim(Dim wanted) {
    if (auto known = computed_.find(wanted); known != computed_.end()) return known->second;
    if (depth_ > kMostLevels || parts_ > kMostParts) return {};
    ++parts_;
    ++depth_;
    const Val found = search(wanted);
    --depth_;
    return computed_[wanted] = found;
  }

 private:
  static constexpr int kMostLevels = 200;
  static constexpr size_t kMostParts = 1000;

  Val search(Dim wanted) {
    if (Val found = before(wanted)) return found;
    if (Val found = from_inputs(b_, wanted)) return found;
    const std::vector<Symbols::Term> terms = b_.graph.symbols.terms(wanted);
    const bool is_atom = terms.size() == 1 && terms[0].factor == 1 && terms[0].atoms.size() == 1;
    Val found;
    if (!is_atom)
      found = from_terms(terms);
    else if (auto made = b_.graph.symbols.made(wanted))
      found = from_parts(*made);
    if (found) b_.computed_dims[wanted] = found.id;
    return found ? found : from_values(b_, wanted);
  }

  // What an earlier call computed. The graph may have lost it since.
  Val before(Dim wanted) {
    auto it = b_.computed_dims.find(wanted);
    if (it == b_.computed_dims.end() || static_cast<size_t>(it->second) >= b_.graph.values.size()) return {};
    const Value& value = b_.graph.at(it->second);
    const bool holds = value.dtype == DType::kInt32 && value.producer >= 0 && value.contents == std::vector{wanted};
    return holds ? Val{it->second} : Val{};
  }

  Val number_or_dim(Dim number) { return is_symbol(number) ? dim(number) : b_.i32({number}); }

  Val from_parts(const Symbols::Made& made) {
    Val x = number_or_dim(made.a), y = x ? number_or_dim(made.b) : Val{};
    if (!y) return {};
    switch (made.by) {
      case Symbols::Made::By::kFloorDiv:
        return b_.floor_div(x, y);
      case Symbols::Made::By::kMin:
        return b_.minimum(x, y);
      case Symbols::Made::By::kMax:
        return b_.maximum(x, y);
      case Symbols::Made::By::kAdd:
        return b_.add(x, y);
      case Symbols::Made::By::kMul:
        return b_.mul(x, y);
    }
    return {};
  }

  Val from_terms(const std::vector<Symbols::Term>& terms) {
    Val sum;
    for (const Symbols::Term& term : terms) parts_ += 1 + term.atoms.size();
    if (parts_ > kMostParts) return {};
    for (const Symbols::Term& term : terms) {
      Val product;
      if (term.factor != 1 || term.atoms.empty()) product = b_.i32({term.factor});
      for (Dim atom : term.atoms) {
        Val factor = dim(atom);
        if (!factor) return {};
        product = product ? b_.mul(product, factor) : factor;
      }
      sum = sum ? b_.add(sum, product) : product;
    }
    return sum;
  }

  Builder& b_;
  std::map<Dim, Val> computed_;
  int depth_ = 0;
  size_t parts_ = 0;
};

}  // namespace

Val run_time_dim(Builder& b, Dim dim) { return Formula(b).dim(dim); }

}  // namespace lowtide::core
