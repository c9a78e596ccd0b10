// SPDX-License-Identifier: Apache-2.0
#include "layout/quantize/element_function.h"

#include <algorithm>
#include <map>
#include <utility>
#include <variant>

#include "layout/core/builtin.h"
#include "stream/error.h"
#include "stream/recipe/recipe_reader.h"

namespace lowtide::layout {
namespace {

using core::Graph;
using core::Kind;
using core::Op;
using core::OpId;
using core::ValueId;
using stream::RecipeRef;
namespace recipe = stream::recipe;

// Exporters write activations in a dozen ops at most.
constexpr size_t kMostOps = 64;

// A constant of one number, perhaps repeated, with one element; null for others.
RecipeRef one_number(const RecipeRef& constant) {
  if (constant->elements() == 1) return recipe::reshape(constant, {1});
  const auto* fill = std::get_if<stream::step::Fill>(&constant->step);
  return fill == nullptr ? nullptr : recipe::fill(fill->lane, constant->dtype, {1});
}

// Whether an entry of a table might be an integer divided by 0. A table has entries for all integers, and the data may
// have none of those.
bool may_divide_by_zero(const Graph& graph, const Op& op) {
  const bool divides = op.kind == Kind::kDiv || op.kind == Kind::kFloorDiv || op.kind == Kind::kFloorMod;
  if ((!divides && op.kind != Kind::kPow) || stream::is_float(graph.at(op.outputs[0]).dtype)) return false;
  const core::Value& divisor = graph.at(op.inputs[1]);
  const RecipeRef number = divisor.is_constant() ? one_number(divisor.constant) : nullptr;
  if (number == nullptr) return true;
  const int64_t known = stream::evaluate_ints(number, graph.budget).front();
  return divides ? known == 0 : known < 0;  // 0 to a negative power
}

bool is_function(const Graph& graph, const Op& op) {
  if (op.kind == Kind::kQuantize || op.kind == Kind::kDequantize || op.outputs.size() != 1 || op.stays_float)
    return false;
  const core::Builtin& row = core::builtin(op.kind);
  return row.is_elementwise() && *row.fold != core::kNotFolded && !may_divide_by_zero(graph, op);
}

class Search {
 public:
  Search(const Graph& graph, const std::function<ValueId(ValueId)>& argument_of)
      : graph_(graph), argument_of_(argument_of) {}

  bool visit(ValueId id) {
    const core::Value& value = graph_.at(id);
    if (value.is_constant()) return one_number(value.constant) != nullptr;
    if (std::find(found.arguments.begin(), found.arguments.end(), id) != found.arguments.end()) return true;
    if (const ValueId root = argument_of_(id); root != core::kAbsent) {
      if (found.root != core::kAbsent && found.root != root) return false;
      found.root = root;
      found.arguments.push_back(id);
      return true;
    }
    return visit_op(value.producer);
  }

  bool visit_op(OpId id) {
    if (id < 0) return false;
    if (std::find(found.ops.begin(), found.ops.end(), id) != found.ops.end()) return true;
    const Op& op = graph_.ops[static_cast<size_t>(id)];
    if (++visited_ > kMostOps || !is_function(graph_, op)) return false;
    for (const ValueId in : op.inputs)
      if (in == core::kAbsent || !visit(in)) return false;
    found.ops.push_back(id);
    return true;
  }

  ElementFunction found;

 private:
  const Graph& graph_;
  const std::function<ValueId(ValueId)>& argument_of_;
  size_t visited_ = 0;
};

Kind kind_of(core::Activation activation) {
  switch (activation) {
    case core::Activation::kRelu:
      return Kind::kRelu;
    case core::Activation::kReluN1To1:
      return Kind::kReluN1To1;
    case core::Activation::kRelu6:
      return Kind::kRelu6;
    case core::Activation::kNone:
      break;
  }
  throw stream::Error(stream::Code::kInternal, "no op has this activation");
}

// One op on constants, computed at once: a chain of recipes would compute what is used twice twice.
ValueId on_constants(Graph& graph, Kind kind, const std::vector<ValueId>& inputs, const core::Options& options) {
  const std::vector<RecipeRef> made = (*core::builtin(kind).fold)(core::OpView{graph, kind, inputs, options});
  if (made.size() != 1) throw stream::Error(stream::Code::kInternal, "an elementwise op gives no constant");
  return graph.add_constant(
      recipe::inline_lanes(stream::evaluate(made[0], graph.budget), made[0]->dtype, made[0]->dims));
}

}  // namespace

std::optional<ElementFunction> element_function(const Graph& graph, ValueId result,
                                                const std::function<ValueId(ValueId)>& argument_of) {
  Search search(graph, argument_of);
  if (!search.visit_op(graph.at(result).producer) || search.found.root == core::kAbsent) return std::nullopt;
  // Operands of higher rank make the result one: its elements are those of the argument, its shape is not.
  for (const ValueId argument : search.found.arguments)
    if (graph.at(argument).shape != graph.at(result).shape) return std::nullopt;
  return std::move(search.found);
}

RecipeRef results_of(Graph& graph, const ElementFunction& function, const RecipeRef& numbers) {
  std::map<ValueId, ValueId> known;
  const ValueId argument = graph.add_constant(numbers);
  for (const ValueId id : function.arguments) known.emplace(id, argument);
  ValueId last = argument;
  for (const OpId id : function.ops) {
    const Op op = graph.ops[static_cast<size_t>(id)];
    std::vector<ValueId> inputs;
    for (const ValueId in : op.inputs) {
      if (!known.contains(in)) known.emplace(in, graph.add_constant(one_number(graph.at(in).constant)));
      inputs.push_back(known.at(in));
    }
    last = on_constants(graph, op.kind, inputs, op.options);
    const core::Builtin& row = core::builtin(op.kind);
    const bool is_activated =
        *row.activation != core::kNoActivation && core::fused_activation(op) != core::Activation::kNone;
    if (is_activated) last = on_constants(graph, kind_of(core::fused_activation(op)), {last}, {});
    known[op.outputs[0]] = last;
  }
  return graph.at(last).constant;
}

}  // namespace lowtide::layout
