// SPDX-License-Identifier: Apache-2.0
// How large the numbers of a constant are, for rules that are right only where all of them, or what is made of them,
// are finite.
#pragma once

#include <optional>

#include "layout/core/magnitudes.h"
#include "layout/fuse/rules.h"

namespace lowtide::layout {

using core::Magnitudes;

// As core::magnitudes_of(), of a constant that rules may fold (Rewriter::is_foldable); else nullopt.
std::optional<Magnitudes> magnitudes_of(Rewriter& rewriter, ValueId constant);

// Factors between these are ordinary: numbers of networks have room for one more of them.
constexpr double kLeastOrdinaryFactor = 0x1p-16, kMostOrdinaryFactor = 0x1p16;
// The largest shift that is ordinary: what is added to numbers of networks does not make their last digits vanish.
constexpr double kOrdinaryShift = 0x1p10;

// Whether a constant may be multiplied by numbers of which the largest has this magnitude. The products are neither so
// large that sums of them overflow, nor so small that they vanish, where the steps one by one keep their numbers.
bool can_multiply(Rewriter& rewriter, ValueId constant, double factor);

}  // namespace lowtide::layout
