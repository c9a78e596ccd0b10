// SPDX-License-Identifier: Apache-2.0
#include "layout/fuse/magnitudes.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "stream/recipe/recipe_reader.h"

namespace lowtide::layout {
namespace {

namespace recipe = stream::recipe;

// Large weights are not read for a factor up to this one: that takes time, and a weight that overflows by it is above
// 2^112, which no network has. Weights that are small are cheap to read.
constexpr double kOrdinaryFactor = 0x1p16;
constexpr int kOwnSteps = 4;  // that are added here, and by the evaluation

}  // namespace

std::optional<Magnitudes> magnitudes_of(Rewriter& rewriter, ValueId constant) {
  if (!rewriter.is_constant(constant)) return std::nullopt;
  const core::Value& value = rewriter.value(constant);
  if (!stream::is_float(value.dtype) || value.quantization || value.constant->elements() == 0 ||
      value.constant->steps + kOwnSteps > stream::kMaxSteps)
    return std::nullopt;
  std::vector<int> axes(value.constant->dims.size());
  std::iota(axes.begin(), axes.end(), 0);
  const stream::RecipeRef sizes = recipe::unary(stream::Unary::kAbs, value.constant);
  auto found = [&](stream::Reduction op) {
    return stream::evaluate_doubles(recipe::reduce(op, sizes, axes), rewriter.graph.budget)[0];
  };
  return Magnitudes{found(stream::Reduction::kMin), found(stream::Reduction::kMax)};
}

bool stays_finite(Rewriter& rewriter, ValueId constant, double factor) {
  if (factor <= 1) return true;
  if (factor <= kOrdinaryFactor && !stream::is_small(*rewriter.value(constant).constant)) return true;
  const auto sizes = magnitudes_of(rewriter, constant);
  if (!sizes) return false;
  return !std::isfinite(sizes->most) || sizes->most * factor <= std::numeric_limits<float>::max();
}

}  // namespace lowtide::layout
