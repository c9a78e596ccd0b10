// SPDX-License-Identifier: Apache-2.0
// A float value each element of which is a function of one element of another value: a chain of elementwise ops whose
// other operands are single numbers.
//
//     x -- MUL(0.2) -- ADD(0.5) -- RELU_0_TO_1 -- y        y[i] = f(x[i])
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "layout/core/graph.h"

namespace lowtide::layout {

struct ElementFunction {
  std::vector<core::OpId> ops;           // in the order in which they are computed; the last one gives the result
  std::vector<core::ValueId> arguments;  // the values that are the argument: one, or several of the same numbers
  core::ValueId root = core::kAbsent;    // what argument_of() said of them
};

// The function that gives `result`. `argument_of` tells of a value which argument it is; kAbsent: it is none, and the
// op that makes it belongs to the function. nullopt: another op is among them, or there are several arguments, or an
// operand has several elements.
std::optional<ElementFunction> element_function(const core::Graph& graph, core::ValueId result,
                                                const std::function<core::ValueId(core::ValueId)>& argument_of);

// The function's results for numbers: a list of f32 of at most stream::kSmallElements, kept in memory. Each op is
// computed in the type of its data and rounded to it, as a runtime does. Adds constants to the graph, which nothing
// uses.
stream::RecipeRef results_of(core::Graph& graph, const ElementFunction& function, const stream::RecipeRef& numbers);

}  // namespace lowtide::layout
