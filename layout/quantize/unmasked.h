// SPDX-License-Identifier: Apache-2.0
// What numbers a tensor has but for masks of attention: few different numbers, far from all others.
//
// Scores that are far below 0 themselves, such as negative distances, are many different numbers: none of them is a
// mask, however far some are from the others. A constant may have masks to which a bias was added, and is read row by
// row: where each row has other numbers, what is far below them counts for nothing, whatever it is.
#pragma once

#include <optional>

#include "layout/core/graph.h"
#include "layout/quantize/ranges.h"

namespace lowtide::layout {

// Numbers up to this one may be masks; models have -100 at most, and learned biases end before.
inline constexpr double kMask = -64;
// Masks are at least so far from other numbers; e^-32 is 0 beside 1 in floats.
inline constexpr double kLeastGap = 32;

struct Unmasked {
  // Without masks at the low end, and without such as are subtracted at the high end; nullopt: there are none. As far
  // out as a mask may be where a coarse histogram does not tell.
  std::optional<double> least, most;
  bool is_empty = false;  // masks alone, at the low end
};

Unmasked unmasked(const Observed& seen);

// Of the finite elements of a constant, which is read tile by tile.
struct ConstantNumbers {
  std::optional<Interval> range;  // with 0 inside; nullopt: there are none, or it is large and not in f32
  Unmasked unmasked;
};
ConstantNumbers constant_numbers(core::Graph& graph, core::ValueId constant);

}  // namespace lowtide::layout
