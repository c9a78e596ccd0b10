// SPDX-License-Identifier: Apache-2.0
// What numbers a tensor has but for masks of attention: few different numbers, far from all others.
//
// Scores that are far below 0 themselves, such as negative distances, are many different numbers: none of them is a
// mask, however far some are from the others. A constant may have masks to which a bias was added, and is read row by
// row: where each row has other numbers, what is far below them counts for nothing, whatever it is.
//
// Numbers that are as far above all others are such, too: the same is said of their negatives.
#pragma once

#include <map>
#include <optional>

#include "layout/core/graph.h"
#include "layout/quantize/ranges.h"

namespace lowtide::layout {

// Numbers up to this one may be masks, and their negatives above; models have -100 at most, and learned biases end
// before.
inline constexpr double kMask = -64;
// Masks are at least so far from other numbers; e^-32 is 0 beside 1 in floats.
inline constexpr double kLeastGap = 32;

struct Unmasked {
  // Without masks at the low end, and without such as are subtracted at the high end; nullopt: there are none. As far
  // out as a mask may be where a coarse histogram does not tell.
  std::optional<double> least, most;
  // From one end, with all numbers negated at the high one.
  std::optional<double> least_from(bool is_low) const {
    return is_low ? least : most ? std::optional(-*most) : std::nullopt;
  }
  bool has_masks() const { return least || most || is_empty || is_empty_above; }
  bool is_empty = false;        // masks alone, at the low end
  bool is_empty_above = false;  // the same at the high end
};

Unmasked unmasked(const Observed& seen);

// Of the elements of a constant, which is read tile by tile.
struct ConstantNumbers {
  std::optional<Interval> range;  // of finite ones, with 0 inside; nullopt: there are none, or it is not in f32
  std::optional<Interval> all;    // with infinities, and 0 only if it is there; nullopt also where there is a NaN
  Unmasked unmasked;
};
ConstantNumbers constant_numbers(core::Graph& graph, core::ValueId constant);

// The same, found once for each constant of a graph.
class KnownConstants {
 public:
  explicit KnownConstants(core::Graph& graph) : graph_(graph) {}
  const ConstantNumbers& of(core::ValueId constant);

 private:
  core::Graph& graph_;
  std::map<stream::RecipeRef, ConstantNumbers> found_;
};

}  // namespace lowtide::layout
