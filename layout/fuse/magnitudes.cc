// SPDX-License-Identifier: Apache-2.0
#include "layout/fuse/magnitudes.h"

#include <cmath>

#include "stream/recipe/recipe_reader.h"

namespace lowtide::layout {
namespace {

// The largest product is within these. What is smaller than it by 2^26 and vanishes is below its last digit.
constexpr double kSmallestProduct = 0x1p-100, kLargestProduct = 0x1p100;

}  // namespace

std::optional<Magnitudes> magnitudes_of(Rewriter& rewriter, ValueId constant) {
  if (!rewriter.is_foldable(constant)) return std::nullopt;
  return core::magnitudes_of(rewriter.graph, constant);
}

bool can_multiply(Rewriter& rewriter, ValueId constant, double factor) {
  if (!rewriter.is_foldable(constant)) return false;
  if (factor == 0 || factor == 1) return true;
  const bool is_ordinary = factor >= kLeastOrdinaryFactor && factor <= kMostOrdinaryFactor;
  // Reading large weights takes time, and no network has such as leave the bounds by an ordinary factor.
  if (is_ordinary && !stream::is_small(*rewriter.value(constant).constant)) return true;
  const auto sizes = magnitudes_of(rewriter, constant);
  if (!sizes) return false;
  const double product = sizes->most * factor;
  return sizes->most == 0 ? std::isfinite(factor)
         : factor > 1     ? product <= kLargestProduct
                          : product >= kSmallestProduct;
}

}  // namespace lowtide::layout
