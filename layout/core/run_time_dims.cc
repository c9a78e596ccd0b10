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

// Whether an op that is still there makes the value.
bool is_computed(const Graph& graph, const Value& value) {
  return value.producer >= 0 && graph.op(value.producer).kind != Kind::kDead;
}

Val from_inputs(Builder& b, Dim dim) {
  for (ValueId input : b.graph.inputs)
    if (Val found = axis_of(b, input, dim)) return found;
  // A branch or a body may have a list of dimensions as an input.
  for (ValueId input : b.graph.inputs)
    if (Val found = among_contents(b, input, dim)) return found;
  return {};
}

// As an axis, or among the elements of a list.
bool has(const Value& value, Dim dim) {
  const auto is_in = [&](const std::vector<Dim>& list) {
    return std::find(list.begin(), list.end(), dim) != list.end();
  };
  return is_in(value.shape) || (value.contents && value.rank() == 1 && is_in(*value.contents));
}

bool inputs_have(const Graph& graph, Dim dim) {
  return std::any_of(graph.inputs.begin(), graph.inputs.end(),
                     [&](ValueId input) { return has(graph.at(input), dim); });
}

// The values that follow from the results of an op.
std::vector<bool> dependents(const Graph& graph, OpId op) {
  std::vector<bool> out(graph.values.size(), false);
  const auto users = graph.users();
  std::vector<OpId> open{op};
  while (!open.empty()) {
    const OpId next = open.back();
    open.pop_back();
    for (const ValueId made : graph.op(next).outputs) {
      if (made == kAbsent || out[static_cast<size_t>(made)]) continue;
      out[static_cast<size_t>(made)] = true;
      const std::vector<OpId>& its = users[static_cast<size_t>(made)];
      open.insert(open.end(), its.begin(), its.end());
    }
  }
  return out;
}

// A dimension in two ways. The first takes it from the graph's inputs alone. Where they do not tell it, the second may
// take it, or a part of its formula, from any value that has it and that can be computed before the op for which the
// builder builds. Formulas share their parts, and each is computed once. One that goes deeper, or has more parts, is
// taken from a value that has it.
class Formula {
 public:
  enum class From : uint8_t { kInputs, kValues };
  Formula(Builder& builder, From from) : b_(builder), from_(from) {}

  // Whether dim() finds it, without adding ops.
  bool tells(Dim wanted) {
    if (auto known = told_.find(wanted); known != told_.end()) return known->second;
    if (depth_ > kMostLevels || parts_ > kMostParts) return false;
    ++parts_;
    ++depth_;
    const bool found = is_told(wanted);
    --depth_;
    return told_[wanted] = found;
  }

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

  bool is_told(Dim wanted) {
    if (!is_symbol(wanted)) return fits(wanted);
    if (before(wanted) || inputs_have(b_.graph, wanted)) return true;
    return parts_are_told(wanted) || (from_ == From::kValues && values_have(wanted));
  }

  bool parts_are_told(Dim wanted) {
    if (auto made = b_.graph.symbols.made(wanted)) return tells(made->a) && tells(made->b);
    const std::vector<Symbols::Term> terms = b_.graph.symbols.terms(wanted);
    if (is_atom(terms)) return false;
    for (const Symbols::Term& term : terms) parts_ += 1 + term.atoms.size();
    return parts_ <= kMostParts && std::all_of(terms.begin(), terms.end(), [&](const Symbols::Term& term) {
             return fits(term.factor) &&
                    std::all_of(term.atoms.begin(), term.atoms.end(), [&](Dim atom) { return tells(atom); });
           });
  }

  static bool is_atom(const std::vector<Symbols::Term>& terms) {
    return terms.size() == 1 && terms[0].factor == 1 && terms[0].atoms.size() == 1;
  }

  Val search(Dim wanted) {
    if (Val found = before(wanted)) return found;
    if (Val found = from_inputs(b_, wanted)) return found;
    const std::vector<Symbols::Term> terms = b_.graph.symbols.terms(wanted);
    Val found;
    if (!is_atom(terms))
      found = from_terms(terms);
    else if (auto made = b_.graph.symbols.made(wanted))
      found = from_parts(*made);
    if (found && from_ == From::kInputs) b_.computed_dims[wanted] = found.id;
    return found || from_ == From::kInputs ? found : from_values(wanted);
  }

  // What an earlier call computed from the inputs. The graph may have lost it since.
  Val before(Dim wanted) {
    auto it = b_.computed_dims.find(wanted);
    if (it == b_.computed_dims.end() || static_cast<size_t>(it->second) >= b_.graph.values.size()) return {};
    const Value& value = b_.graph.at(it->second);
    const bool holds =
        value.dtype == DType::kInt32 && is_computed(b_.graph, value) && value.contents == std::vector{wanted};
    return holds ? Val{it->second} : Val{};
  }

  // Any computed value that has the dimension as an axis, or among the elements of a list.
  Val from_values(Dim dim) {
    const size_t count = b_.graph.values.size();
    for (const auto& found_in : {axis_of, among_contents})
      for (size_t v = 0; v < count; ++v) {
        const auto id = static_cast<ValueId>(v);
        if (!can_tell(id, dim)) continue;
        if (Val found = found_in(b_, id, dim)) return found;
      }
    return {};
  }

  bool values_have(Dim dim) {
    for (size_t v = 0; v < b_.graph.values.size(); ++v)
      if (can_tell(static_cast<ValueId>(v), dim)) return true;
    return false;
  }

  bool can_tell(ValueId id, Dim dim) {
    return is_computed(b_.graph, b_.graph.at(id)) && has(b_.graph.at(id), dim) && !is_behind(id);
  }

  bool is_behind(ValueId id) {
    if (b_.built_for < 0) return false;
    if (behind_.empty()) behind_ = dependents(b_.graph, b_.built_for);
    return static_cast<size_t>(id) < behind_.size() && behind_[static_cast<size_t>(id)];
  }

  // Formulas are computed in i32.
  static bool fits(int64_t number) { return number >= INT32_MIN && number <= INT32_MAX; }

  Val number_or_dim(Dim number) {
    if (is_symbol(number)) return dim(number);
    return fits(number) ? b_.i32({number}) : Val{};
  }

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
      if (!fits(term.factor)) return {};
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
  From from_;
  std::map<Dim, bool> told_;
  std::map<Dim, Val> computed_;
  std::vector<bool> behind_;
  int depth_ = 0;
  size_t parts_ = 0;
};

}  // namespace

Val run_time_dim(Builder& b, Dim dim, Val of) {
  if (Formula(b, Formula::From::kInputs).tells(dim)) return Formula(b, Formula::From::kInputs).dim(dim);
  if (of && !b.is_constant(of))
    if (Val found = axis_of(b, of.id, dim)) return found;
  return Formula(b, Formula::From::kValues).dim(dim);
}

bool has_run_time_dim(Builder& b, Dim dim) { return Formula(b, Formula::From::kValues).tells(dim); }

}  // namespace lowtide::core
