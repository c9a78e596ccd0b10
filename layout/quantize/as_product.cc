// SPDX-License-Identifier: Apache-2.0
#include "layout/quantize/as_product.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

namespace lowtide::layout {
namespace {

namespace recipe = stream::recipe;

// Empty where there are none.
std::vector<float> reciprocals(Graph& graph, ValueId divisor) {
  const auto numbers = graph.numbers(divisor);
  if (!numbers) return {};
  std::vector<float> out;
  for (const double number : *numbers) {
    out.push_back(static_cast<float>(1 / number));
    if (!std::isnormal(out.back())) return {};
  }
  return out;
}

Op times_constant(Graph& graph, Op op, stream::RecipeRef factors) {
  if (op.kind == Kind::kNeg) op.options = core::BinaryOptions{};
  op.kind = Kind::kMul;
  op.inputs.resize(2);
  op.inputs[1] = graph.add_constant(std::move(factors));
  return op;
}

}  // namespace

std::optional<Op> as_product(Graph& graph, const Op& op, bool by_lists) {
  if ((op.kind != Kind::kNeg && op.kind != Kind::kDiv) || graph.at(op.outputs[0]).dtype != DType::kFloat32)
    return std::nullopt;
  if (op.kind == Kind::kNeg) return times_constant(graph, op, recipe::fill_value(-1, DType::kFloat32, {}));
  const std::vector<float> factors = reciprocals(graph, op.inputs[1]);
  if (factors.empty()) return std::nullopt;
  // The data may be repeated along axes of the divisor.
  const core::Shape divisor = graph.at(op.inputs[1]).shape;
  const bool repeats = graph.at(op.outputs[0]).shape != graph.at(op.inputs[0]).shape;
  if (std::adjacent_find(factors.begin(), factors.end(), std::not_equal_to<>()) == factors.end())
    return times_constant(graph, op,
                          recipe::fill_value(factors[0], DType::kFloat32, repeats ? divisor : core::Shape{}));
  return by_lists ? std::optional(times_constant(graph, op, recipe::floats(factors, divisor))) : std::nullopt;
}

}  // namespace lowtide::layout
