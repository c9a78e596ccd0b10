// SPDX-License-Identifier: Apache-2.0
#include "layout/core/magnitudes.h"

#include <numeric>
#include <vector>

#include "stream/recipe/recipe_reader.h"

namespace lowtide::core {

namespace recipe = stream::recipe;

std::optional<Magnitudes> magnitudes_of(Graph& graph, ValueId constant) {
  const Value& value = graph.at(constant);
  if (!value.is_constant() || !stream::is_float(value.dtype) || value.quantization || value.constant->elements() == 0 ||
      value.constant->steps + 2 > stream::kMaxSteps)
    return std::nullopt;
  std::vector<int> axes(value.constant->dims.size());
  std::iota(axes.begin(), axes.end(), 0);
  const RecipeRef sizes = recipe::unary(stream::Unary::kAbs, value.constant);
  auto found = [&](stream::Reduction op) {
    return stream::evaluate_doubles(recipe::reduce(op, sizes, axes), graph.budget)[0];
  };
  return Magnitudes{found(stream::Reduction::kMin), found(stream::Reduction::kMax)};
}

}  // namespace lowtide::core
