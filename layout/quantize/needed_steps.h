// SPDX-License-Identifier: Apache-2.0
// Values whose readers need more of them than a part in 255 of the largest: divisors and arguments of logarithms, of
// which the smallest matter most, and arguments of sines and of roundings, of which whole units matter. A grid over
// all such values may have no step for the small ones, or steps of several units.
//
//     DIV (1), RSQRT, LOG, POW with a negative exponent       16 steps for the smallest magnitude that was seen
//     SIN, COS, FLOOR_MOD, CAST to integers, x - FLOOR(x)     16 steps for a unit
//
// What the readers need is passed on: through ops that give elements of their data, sums, differences, constant
// factors, MEAN and SUM, and where their result is needed so through SQRT and roundings. But for ops with weights not
// through MEAN and SUM: what many terms do together is rarely worth weights in floats.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "layout/quantize/known_ranges.h"

namespace lowtide::layout {

class NeededSteps {
 public:
  // `graph` is tidy.
  NeededSteps(Graph& graph, const Calibrated& calibrated);

  // The largest step of a grid that is fine enough for all readers of the value; infinite where any is. `by_terms`:
  // what is passed on through MEAN and SUM counts.
  double of(ValueId id, bool by_terms = true) const { return steps_[by_terms ? 1 : 0][static_cast<size_t>(id)]; }
  // The same for one reader.
  double of_operand(const Op& op, size_t input, bool by_terms = true) const;

 private:
  std::optional<double> least_magnitude(ValueId id) const;
  bool are_fractions_taken(ValueId data, ValueId rounded) const;
  bool are_integers_used(ValueId id) const;
  std::optional<double> factor(const Op& op, size_t input) const;
  double terms(const Op& op) const;

  Graph& graph_;
  const Calibrated& calibrated_;
  const std::vector<std::vector<OpId>> users_;
  std::array<std::vector<double>, 2> steps_;  // by `by_terms` and by value
};

}  // namespace lowtide::layout
